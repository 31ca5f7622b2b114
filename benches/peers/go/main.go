// The service of benches/peers in Go: one goroutine per packet.
//
// With -work sleep each request takes its cost on one of -cores emulated cores, as in src/cores.rs: the thread sleeps to
// an absolute deadline, and a job that waited starts when its core came free. Beside the cost, such a core is charged
// -receive, -send and -give-way. With -work cpu the cost is burnt. With -quantum a request yields after each quantum of it.
package main

import (
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
	datagramMax  = 2048
	receiveBytes = 4 << 20
)

// What an emulated core is charged beside the cost of a request: once for each request, and once for each yield.
var receivePrice, sendPrice, giveWayPrice time.Duration

var buffers = sync.Pool{New: func() any { return new([datagramMax]byte) }}

func main() {
	work := flag.String("work", "echo", "what becomes of a request's cost: echo, sleep, cpu")
	cores := flag.Int("cores", 1, "emulated cores, where cost is slept")
	quantum := flag.Duration("quantum", 0, "yield after so much of a request's cost; 0 never")
	flag.DurationVar(&receivePrice, "receive", 0, "what an emulated core pays for a receive")
	flag.DurationVar(&sendPrice, "send", 0, "what an emulated core pays for a send")
	flag.DurationVar(&giveWayPrice, "give-way", 0, "what an emulated core pays for a yield")
	flag.Parse()
	endWithParent()
	burn := burner(*work, *cores)
	socket, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err == nil {
		err = socket.SetReadBuffer(receiveBytes)
	}
	if err != nil {
		fail(err)
	}
	fmt.Printf("listening on udp %s, admin none\n", socket.LocalAddr())
	if *quantum > 0 {
		// When a goroutine sleeps on an emulated core, the scheduler is idle and learns of datagrams at once.
		serveYielding(socket, burn, *quantum, *work == "sleep")
	}
	for {
		buffer := buffers.Get().(*[datagramMax]byte)
		length, peer, err := socket.ReadFromUDPAddrPort(buffer[:])
		if err != nil {
			fail(err)
		}
		go handle(socket, burn, buffer, length, peer, time.Now())
	}
}

func handle(socket *net.UDPConn, burn burn, buffer *[datagramMax]byte, length int, peer netip.AddrPort, readyAt time.Time) {
	if cost, ok := costOf(buffer[:length]); ok {
		burn(receivePrice+cost+sendPrice, readyAt, true)
		reply(buffer[:length])
		// The client may have gone; the server goes on.
		_, _ = socket.WriteToUDPAddrPort(buffer[:length], peer)
	}
	buffers.Put(buffer)
}

// handleYielding serves a request like handle, and lets others run after each quantum.
func handleYielding(socket *net.UDPConn, burn burn, quantum time.Duration, buffer *[datagramMax]byte, length int, peer netip.AddrPort) {
	if left, ok := costOf(buffer[:length]); ok {
		readyAt, owed := time.Now(), receivePrice
		for ; left > quantum; left -= quantum {
			readyAt, owed = burn(owed+quantum+giveWayPrice, readyAt, false), 0
			runtime.Gosched()
		}
		burn(owed+left+sendPrice, readyAt, true)
		reply(buffer[:length])
		_, _ = socket.WriteToUDPAddrPort(buffer[:length], peer)
	}
	buffers.Put(buffer)
	active.Add(-1)
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
