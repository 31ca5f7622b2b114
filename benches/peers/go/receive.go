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
	// Looked for datagrams for this long after the last one, before the thread sleeps.
	spin = 50 * time.Microsecond
)

// Requests under way.
var active atomic.Int64

// serveYielding receives in batches, and looks again whenever its turn comes: as long as goroutines are ready, the
// scheduler asks the kernel for events once in 10 ms only, and a reader that waits for one would wait as long. With waits
// it waits all the same.
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

// room is what one recvmmsg needs.
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

// renew gives slot i a buffer.
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

// take hands over datagram i, and makes room for another in its place.
func (room *room) take(i int) (*[datagramMax]byte, int, netip.AddrPort) {
	buffer, length := room.buffers[i], int(room.headers[i].length)
	name := &room.names[i]
	// In network order.
	port := (*[2]byte)(unsafe.Pointer(&name.Port))
	peer := netip.AddrPortFrom(netip.AddrFrom4(name.Addr), uint16(port[0])<<8|uint16(port[1]))
	room.renew(i)
	return buffer, length, peer
}
