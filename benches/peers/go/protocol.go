package main

import (
	"encoding/binary"
	"time"
)

const headerBytes = 64

// costOf returns the cost that a request states; false if the datagram is not a request.
func costOf(datagram []byte) (time.Duration, bool) {
	const version, request = 1, 1
	if len(datagram) < headerBytes || string(datagram[:4]) != "FBAY" || datagram[4] != version || datagram[5] != request {
		return 0, false
	}
	return time.Duration(binary.LittleEndian.Uint64(datagram[24:32])), true
}

// reply turns a request into its reply.
func reply(datagram []byte) {
	const reply = 2
	datagram[5] = reply
	datagram[7] = 0
	clear(datagram[36:headerBytes])
}
