// The service of benches/peers in Go: one goroutine per packet.
//
// With -cores N each request burns its cost on one of N emulated cores, as src/cores.rs does: the thread sleeps to an
// absolute deadline, and a job that waited starts when its core came free.
package main

import (
	"encoding/binary"
	"flag"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"syscall"
	"time"
)

const (
	headerBytes  = 64
	datagramMax  = 2048
	receiveBytes = 4 << 20
	// Of the last stretch of a burn, spun through, as src/handler/builtin/burn.rs does.
	wakeLatency = 50 * time.Microsecond
)

var (
	buffers = sync.Pool{New: func() any { return new([datagramMax]byte) }}
	// The moments at which the free cores came free; nil echoes.
	cores chan time.Time
)

func main() {
	count := flag.Int("cores", 0, "emulated cores; 0 echoes")
	flag.Parse()
	endWithParent()
	if *count > 0 {
		cores = make(chan time.Time, *count)
		for range *count {
			cores <- time.Time{}
		}
	}
	socket, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err == nil {
		err = socket.SetReadBuffer(receiveBytes)
	}
	if err != nil {
		fail(err)
	}
	fmt.Printf("listening on udp %s, admin none\n", socket.LocalAddr())
	for {
		buffer := buffers.Get().(*[datagramMax]byte)
		length, peer, err := socket.ReadFromUDPAddrPort(buffer[:])
		if err != nil {
			fail(err)
		}
		go handle(socket, buffer, length, peer, time.Now())
	}
}

func handle(socket *net.UDPConn, buffer *[datagramMax]byte, length int, peer netip.AddrPort, readyAt time.Time) {
	if serve(buffer[:length], readyAt) {
		// A client that has gone is no concern of the server's.
		_, _ = socket.WriteToUDPAddrPort(buffer[:length], peer)
	}
	buffers.Put(buffer)
}

// serve turns a request into its reply; false for what is no request.
func serve(datagram []byte, readyAt time.Time) bool {
	const version, request, reply = 1, 1, 2
	if len(datagram) < headerBytes || string(datagram[:4]) != "FBAY" || datagram[4] != version || datagram[5] != request {
		return false
	}
	if cores != nil {
		burn(time.Duration(binary.LittleEndian.Uint64(datagram[24:32])), readyAt)
	}
	datagram[5] = reply
	datagram[7] = 0
	clear(datagram[36:headerBytes])
	return true
}

func burn(cost time.Duration, readyAt time.Time) {
	start := <-cores
	if readyAt.After(start) {
		start = time.Now()
	}
	until := start.Add(cost)
	if left := time.Until(until) - wakeLatency; left > 0 {
		// A sleeping thread, not a sleeping goroutine: a core that burns serves nobody else.
		wait := syscall.NsecToTimespec(left.Nanoseconds())
		_ = syscall.Nanosleep(&wait, nil)
	}
	for time.Now().Before(until) {
		runtime.Gosched()
	}
	cores <- until
}

// endWithParent ends this process with 0 on SIGTERM, which also comes when the parent ends.
func endWithParent() {
	const setParentDeathSignal = 1
	if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, setParentDeathSignal, uintptr(syscall.SIGTERM), 0); errno != 0 {
		fail(errno)
	}
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGTERM)
	go func() {
		<-told
		os.Exit(0)
	}()
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "error:", err)
	os.Exit(1)
}
