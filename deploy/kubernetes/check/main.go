// Would a cluster accept the overlays of deploy/kubernetes, and do their numbers agree with the settings of the program?
// Renders each overlay as kubectl does, decodes every document strictly into the type of its kind, asks the program for the
// settings in effect, and compares. Needs no cluster.
//
//	go run . FOREBAY LOADGEN
package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	network "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// The overlays, and the kinds of documents in each.
var overlays = map[string]string{
	"base":         "ConfigMap Deployment NetworkPolicy PodDisruptionBudget Service",
	"static-cpu":   "ConfigMap Deployment NetworkPolicy PodDisruptionBudget Service",
	"host-network": "ConfigMap DaemonSet",
	"monitored":    "ConfigMap Deployment NetworkPolicy PodDisruptionBudget PodMonitor Service",
	"scaled":       "ConfigMap Deployment HorizontalPodAutoscaler NetworkPolicy PodDisruptionBudget PodMonitor Service",
	"loadgen":      "Job",
}

var failed bool

// check reports a failure unless isSo is true.
func check(isSo bool, format string, arguments ...any) {
	if !isSo {
		failed = true
		fmt.Printf("FAILED  "+format+"\n", arguments...)
	}
}

func must[T any](value T, err error) T {
	if err != nil {
		fmt.Println("FAILED ", err)
		os.Exit(1)
	}
	return value
}

// decoded reads the document strictly: a field that the type does not have is an error.
func decoded[T any](document []byte) T {
	var into T
	must(0, yaml.UnmarshalStrict(document, &into))
	return into
}

// overlay is the result of rendering one folder.
type overlay struct {
	name     string
	settings map[string]string
	pods     core.PodTemplateSpec
	replicas *int32
	selector *meta.LabelSelector
	service  *core.Service
	policies []network.NetworkPolicy
	budget   *policy.PodDisruptionBudget
	monitor  *monitoring.PodMonitor
	scaler   *autoscaling.HorizontalPodAutoscaler
}

func rendered(name, kinds string) overlay {
	options := krusty.MakeDefaultOptions()
	made := must(krusty.MakeKustomizer(options).Run(filesys.MakeFsOnDisk(), filepath.Join("..", name)))
	all, found := overlay{name: name}, map[string]bool{}
	for _, resource := range made.Resources() {
		document := must(resource.AsYAML())
		found[resource.GetKind()] = true
		switch kind := resource.GetApiVersion() + " " + resource.GetKind(); kind {
		case "v1 ConfigMap":
			all.settings = decoded[core.ConfigMap](document).Data
		case "v1 Service":
			service := decoded[core.Service](document)
			all.service = &service
		case "apps/v1 Deployment":
			it := decoded[apps.Deployment](document)
			all.pods, all.replicas, all.selector = it.Spec.Template, it.Spec.Replicas, it.Spec.Selector
		case "apps/v1 DaemonSet":
			it := decoded[apps.DaemonSet](document)
			all.pods, all.selector = it.Spec.Template, it.Spec.Selector
		case "batch/v1 Job":
			all.pods = decoded[batch.Job](document).Spec.Template
		case "policy/v1 PodDisruptionBudget":
			it := decoded[policy.PodDisruptionBudget](document)
			all.budget = &it
		case "networking.k8s.io/v1 NetworkPolicy":
			all.policies = append(all.policies, decoded[network.NetworkPolicy](document))
		case "monitoring.coreos.com/v1 PodMonitor":
			it := decoded[monitoring.PodMonitor](document)
			all.monitor = &it
		case "autoscaling/v2 HorizontalPodAutoscaler":
			it := decoded[autoscaling.HorizontalPodAutoscaler](document)
			all.scaler = &it
		default:
			check(false, "%s: no type for %s", name, kind)
		}
	}
	for _, kind := range strings.Fields(kinds) {
		check(found[kind], "%s: no %s", name, kind)
		delete(found, kind)
	}
	check(len(found) == 0, "%s: also %v", name, found)
	return all
}

// inEffect asks the program for the settings of the container: its flags, variables and file.
func (all overlay) inEffect(forebay string) map[string]string {
	container := all.pods.Spec.Containers[0]
	folder := must(os.MkdirTemp("", "forebay"))
	defer os.RemoveAll(folder)
	for name, text := range all.settings {
		must(0, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644))
	}
	arguments := []string{"--check-config"}
	for _, argument := range container.Args {
		arguments = append(arguments, strings.Replace(argument, container.VolumeMounts[0].MountPath, folder, 1))
	}
	// The subcommand comes first.
	arguments[0], arguments[1] = arguments[1], arguments[0]
	command := exec.Command(forebay, arguments...)
	command.Env = []string{}
	for _, variable := range container.Env {
		value := variable.Value
		if variable.ValueFrom != nil {
			check(variable.ValueFrom.ResourceFieldRef.Resource == "limits.cpu", "%s: %s", all.name, variable.Name)
			value = fmt.Sprint(container.Resources.Limits.Cpu().Value())
		}
		command.Env = append(command.Env, variable.Name+"="+value)
	}
	said, err := command.CombinedOutput()
	check(err == nil, "%s: %v: %s", all.name, err, said)
	settings := map[string]string{}
	for _, row := range regexp.MustCompile(`(?m)^([a-z-]+) = "?([^"#]*?)"?\s*(#.*)?$`).FindAllStringSubmatch(string(said), -1) {
		settings[row[1]] = row[2]
	}
	return settings
}

func portOf(address string) string { return address[strings.LastIndex(address, ":")+1:] }

func selects(selector *meta.LabelSelector, pods core.PodTemplateSpec) bool {
	chosen, err := meta.LabelSelectorAsSelector(selector)
	return err == nil && !chosen.Empty() && chosen.Matches(labels.Set(pods.Labels))
}

func (all overlay) agrees(forebay string) {
	settings, container := all.inEffect(forebay), all.pods.Spec.Containers[0]
	ports := map[string]core.ContainerPort{}
	for _, port := range container.Ports {
		ports[port.Name] = port
	}
	for name, setting := range map[string]string{"requests": "listen", "admin": "admin"} {
		check(fmt.Sprint(ports[name].ContainerPort) == portOf(settings[setting]), "%s: port %s is not that of %s = %s", all.name, name, setting, settings[setting])
	}
	check(ports["requests"].Protocol == core.ProtocolUDP && ports["admin"].Protocol == core.ProtocolTCP, "%s: protocols", all.name)

	lame, drain := must(time.ParseDuration(settings["lame-duck"])), must(time.ParseDuration(settings["drain-timeout"]))
	grace := time.Duration(*all.pods.Spec.TerminationGracePeriodSeconds) * time.Second
	check(grace > lame+drain, "%s: terminationGracePeriodSeconds is %v, and lame-duck and drain-timeout take %v", all.name, grace, lame+drain)
	ready := container.ReadinessProbe
	noticed := time.Duration(ready.PeriodSeconds*ready.FailureThreshold+ready.TimeoutSeconds) * time.Second
	check(lame > noticed, "%s: lame-duck is %v, and readiness takes up to %v to notice", all.name, lame, noticed)
	for path, probes := range map[string][]*core.Probe{"/readyz": {container.StartupProbe, ready}, "/healthz": {container.LivenessProbe}} {
		for _, probe := range probes {
			check(probe.HTTPGet.Path == path && probe.HTTPGet.Port == intstr.FromString("admin"), "%s: a probe asks %v", all.name, probe.HTTPGet)
			reached := strings.HasPrefix(settings["admin"], "0.0.0.0:") || probe.HTTPGet.Host+":"+portOf(settings["admin"]) == settings["admin"]
			check(reached, "%s: a probe does not reach admin = %s", all.name, settings["admin"])
		}
	}
	check(selects(all.selector, all.pods), "%s: the selector selects other Pods", all.name)
	check(all.service == nil || labels.SelectorFromSet(all.service.Spec.Selector).Matches(labels.Set(all.pods.Labels)), "%s: the Service selects other Pods", all.name)
	check(all.budget == nil || selects(all.budget.Spec.Selector, all.pods), "%s: the budget selects other Pods", all.name)
	for _, one := range all.policies {
		check(selects(&one.Spec.PodSelector, all.pods), "%s: the network policy selects other Pods", all.name)
		for _, rule := range one.Spec.Ingress {
			port, isThere := ports[rule.Ports[0].Port.StrVal]
			check(isThere && port.Protocol == *rule.Ports[0].Protocol, "%s: the network policy names port %v", all.name, rule.Ports[0].Port)
			check(port.Name != "admin" || len(rule.From) > 0, "%s: all reach the admin port", all.name)
		}
	}
	if all.service != nil {
		_, isThere := ports[all.service.Spec.Ports[0].TargetPort.StrVal]
		check(isThere && fmt.Sprint(all.service.Spec.Ports[0].Port) == portOf(settings["listen"]), "%s: the Service's port", all.name)
	}
	if all.monitor != nil {
		_, isThere := ports[*all.monitor.Spec.PodMetricsEndpoints[0].Port]
		check(isThere && selects(&all.monitor.Spec.Selector, all.pods), "%s: the monitor's port or selector", all.name)
		check(all.monitor.Spec.ScrapeProtocols[0] == monitoring.PrometheusProto, "%s: native histograms come in protobuf", all.name)
		check(all.pods.Labels[all.monitor.Spec.JobLabel] == "forebay", "%s: the job is not that of the rules", all.name)
	}
	if all.scaler != nil {
		check(all.replicas == nil, "%s: replicas beside a scaler", all.name)
		adapter := string(must(os.ReadFile("../scaled/adapter.yaml")))
		for _, metric := range all.scaler.Spec.Metrics {
			check(strings.Contains(adapter, "{as: "+metric.Pods.Metric.Name+"}"), "%s: no rule makes %s", all.name, metric.Pods.Metric.Name)
		}
		pages := string(must(os.ReadFile("../../../crates/metrics/fields.md")))
		for _, series := range regexp.MustCompile(`seriesQuery: '(\w+)`).FindAllStringSubmatch(adapter, -1) {
			check(strings.Contains(pages, "| `"+series[1]+"` |"), "%s: the server has no %s", all.name, series[1])
		}
	}
	if all.name == "static-cpu" {
		limits, requests := container.Resources.Limits, container.Resources.Requests
		check(limits.Cpu().Equal(*requests.Cpu()) && limits.Memory().Equal(*requests.Memory()), "%s: requests are not limits", all.name)
		check(limits.Cpu().MilliValue()%1000 == 0, "%s: %v is no number of whole CPUs", all.name, limits.Cpu())
		check(settings["workers"] == limits.Cpu().String() && settings["pin"] == "true", "%s: %s workers, pin %s", all.name, settings["workers"], settings["pin"])
	}
}

func main() {
	forebay, loadgen := os.Args[1], os.Args[2]
	for name, kinds := range overlays {
		all := rendered(name, kinds)
		security := all.pods.Spec.SecurityContext
		check(*security.RunAsNonRoot && *security.RunAsUser == 65532, "%s: its user", name)
		check(strings.Contains(string(must(os.ReadFile("../../container/Containerfile"))), fmt.Sprintf("USER %d:%d\n", *security.RunAsUser, *security.RunAsGroup)), "%s: another user than the image's", name)
		if name != "loadgen" {
			all.agrees(forebay)
			continue
		}
		// No server answers here; only a wrong command line ends with 2.
		arguments := []string{}
		for _, argument := range all.pods.Spec.Containers[0].Args {
			if len(arguments) > 0 && arguments[len(arguments)-1] == "--duration" {
				argument = "100ms"
			}
			arguments = append(arguments, strings.Replace(argument, "forebay:9000", "127.0.0.1:9", 1))
		}
		command := exec.Command(loadgen, arguments...)
		said, _ := command.CombinedOutput()
		check(command.ProcessState.ExitCode() != 2, "%s: %s", name, said)
	}
	if failed {
		os.Exit(1)
	}
	fmt.Printf("%d overlays agree with the program\n", len(overlays))
}
