package main

import (
	"fmt"
	"runtime"
	"syscall"
	"time"
)

// burn takes the time cost for a job that has been ready since readyAt. With isLast, the job ends after that.
// It returns the time since which the remaining job is ready again.
type burn func(cost time.Duration, readyAt time.Time, isLast bool) time.Time

func burner(work string, cores int) burn {
	switch work {
	case "echo":
		return func(_ time.Duration, readyAt time.Time, _ bool) time.Time { return readyAt }
	case "sleep":
		return emulated(cores)
	case "cpu":
		return calibrated()
	}
	fail(fmt.Errorf("-work %s: echo, sleep or cpu", work))
	return nil
}

// calibrated burns CPU time by the same chain of multiplications as src/handler/builtin/burn.rs, calibrated the same way.
func calibrated() burn {
	const rounds, tries = 200_000, 32
	fastest := time.Hour
	for range tries {
		start := time.Now()
		compute(rounds)
		fastest = min(fastest, time.Since(start))
	}
	rate := uint64(rounds * 1024 / max(fastest.Nanoseconds(), 1))
	return func(cost time.Duration, readyAt time.Time, _ bool) time.Time {
		compute(uint64(cost.Nanoseconds()) * rate / 1024)
		return readyAt
	}
}

var sink uint64

// compute is a chain of dependent multiplications, so no core can compute two rounds at once.
//
//go:noinline
func compute(rounds uint64) {
	value := uint64(1)
	for range rounds {
		value = value*6_364_136_223_846_793_005 + 1
	}
	// Never true, but the compiler cannot know it and must keep the chain.
	if value == 0 {
		sink = value
	}
}

// emulated sleeps on emulated cores.
func emulated(count int) burn {
	// The end of a job's last sleep is spun, because a sleep ends late; src/handler/builtin/burn.rs does the same.
	const wakeLatency = 50 * time.Microsecond
	// For each free core, the time since which it is free.
	cores := make(chan time.Time, count)
	for range count {
		cores <- time.Time{}
	}
	return func(cost time.Duration, readyAt time.Time, isLast bool) time.Time {
		start := <-cores
		if readyAt.After(start) {
			start = time.Now()
		}
		until := start.Add(cost)
		left := time.Until(until)
		if isLast {
			left -= wakeLatency
		}
		if left > 0 {
			// Sleeps with the thread, not the goroutine: the thread of a busy core must not serve another job.
			wait := syscall.NsecToTimespec(left.Nanoseconds())
			_ = syscall.Nanosleep(&wait, nil)
		}
		for isLast && time.Now().Before(until) {
			runtime.Gosched()
		}
		cores <- until
		return until
	}
}
