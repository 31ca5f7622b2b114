package main

import (
	"errors"
	"net"
	"net/netip"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

const (
	batch = 32
	// For this long after the last datagram, the reader looks for more before the thread sleeps.
	spin = 50 * time.Microsecond
)

// The number of unfinished requests.
var active atomic.Int64

// serveYielding receives in batches, and polls the socket whenever its goroutine runs. It must not wait for readiness: while
// goroutines are ready, Go's scheduler asks the kernel for events only every 10 ms. With waits it waits nevertheless.
func serveYielding(socket *net.UDPConn, burn burn, quantum time.Duration, waits bool) {
	raw, err := socket.SyscallConn()
	if err != nil {
		fail(err)
	}
	room := newRoom()
	heardAt := time.Now()
	for {
		var received int
		var errno syscall.Errno
		err := raw.Read(func(fd uintptr) bool {
			received, errno = room.receive(fd)
			isIdle := waits || active.Load() == 0 && time.Since(heardAt) >= spin
			return errno != syscall.EAGAIN || !isIdle
		})
		if err != nil {
			fail(err)
		}
		switch errno {
		case 0:
			heardAt = time.Now()
			active.Add(int64(received))
			for i := range received {
				buffer, length, peer := room.take(i)
				go handleYielding(socket, burn, quantum, buffer, length, peer)
			}
		case syscall.EAGAIN, syscall.EINTR:
		default:
			fail(errors.New("receiving: " + errno.Error()))
		}
		runtime.Gosched()
	}
}

// room has the buffers and headers for one recvmmsg.
type room struct {
	headers [batch]messageHeader
	vectors [batch]syscall.Iovec
	names   [batch]syscall.RawSockaddrInet4
	buffers [batch]*[datagramMax]byte
}

// messageHeader is struct mmsghdr.
type messageHeader struct {
	header syscall.Msghdr
	length uint32
	_      [4]byte
}

func newRoom() *room {
	room := new(room)
	for i := range batch {
		room.renew(i)
	}
	return room
}

// renew gives slot i a new buffer.
func (room *room) renew(i int) {
	room.buffers[i] = buffers.Get().(*[datagramMax]byte)
	room.vectors[i].Base = &room.buffers[i][0]
	room.vectors[i].SetLen(datagramMax)
	header := &room.headers[i].header
	header.Iov = &room.vectors[i]
	header.Iovlen = 1
	header.Name = (*byte)(unsafe.Pointer(&room.names[i]))
	header.Namelen = syscall.SizeofSockaddrInet4
}

func (room *room) receive(fd uintptr) (int, syscall.Errno) {
	first := uintptr(unsafe.Pointer(&room.headers[0]))
	count, _, errno := syscall.RawSyscall6(syscall.SYS_RECVMMSG, fd, first, batch, syscall.MSG_DONTWAIT, 0, 0)
	return int(count), errno
}

// take hands datagram i over, and gives its slot a new buffer.
func (room *room) take(i int) (*[datagramMax]byte, int, netip.AddrPort) {
	buffer, length := room.buffers[i], int(room.headers[i].length)
	name := &room.names[i]
	// The port is in network byte order.
	port := (*[2]byte)(unsafe.Pointer(&name.Port))
	peer := netip.AddrPortFrom(netip.AddrFrom4(name.Addr), uint16(port[0])<<8|uint16(port[1]))
	room.renew(i)
	return buffer, length, peer
}
