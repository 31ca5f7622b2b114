//! Is the admin endpoint itself asked, whatever proxy the environment names? Method: a proxy where
//! no server listens.

use crate::faulty::*;

#[test]
fn no_proxy_of_the_environment_is_asked() {
    for variable in ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"] {
        let target = honest();
        let admin = admin::endpoint(move |nth| {
            // More than are sent between two looks, so that the generator does not wait for the
            // rest.
            let mut body: Value = admin::body("steal", 1_000 * nth as u64, 0);
            body["listen"] = target.to_string().into();
            body.to_string()
        });
        let flags = format!("run --admin {admin} --rate 100 --duration 200ms --warmup 0s --timeout 100ms --quiet");
        let mut command = Command::new(LOADGEN.path());
        let output = command.args(flags.split(' ')).env(variable, "http://127.0.0.1:1").output().expect("loadgen runs");
        // 3 is a verdict about this machine at this moment.
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(matches!(output.status.code(), Some(0 | 3)), "{variable}: {said}");
    }
}
