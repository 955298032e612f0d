package store

import (
	"bytes"
	"net"
	"sync"
	"testing"
)

// lossy is a proxy between a client and Redis that can lose a reply: Redis runs the command, and
// the connection ends or stays silent.
type lossy struct {
	l  net.Listener
	to string
	wg sync.WaitGroup

	mu     sync.Mutex
	conns  map[net.Conn]bool
	ended  bool
	word   []byte // of the requests whose answers are to be lost
	left   int    // so many of them
	silent bool
	lost   int
}

func newLossy(t *testing.T) *lossy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &lossy{l: l, conns: map[net.Conn]bool{}}
	t.Cleanup(func() {
		_ = l.Close()
		p.mu.Lock()
		p.ended = true
		for c := range p.conns {
			_ = c.Close()
		}
		p.mu.Unlock()
		p.wg.Wait()
	})
	return p
}

// serve leads to a Redis.
func (p *lossy) serve(to string) {
	p.to = to
	p.wg.Add(1)
	go p.accept()
}

func (p *lossy) addr() string { return p.l.Addr().String() }

// lose loses the answers to the next n requests that hold a word.
func (p *lossy) lose(word string, n int, silent bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.word, p.left, p.silent, p.lost = []byte(word), n, silent, 0
}

// losses is how many answers were lost.
func (p *lossy) losses() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lost
}

func (p *lossy) accept() {
	defer p.wg.Done()
	for {
		c, err := p.l.Accept()
		if err != nil {
			return
		}
		up, err := net.Dial("tcp", p.to)
		p.mu.Lock()
		if err != nil || p.ended {
			_ = c.Close()
			if up != nil {
				_ = up.Close()
			}
			p.mu.Unlock()
			continue
		}
		p.conns[c], p.conns[up] = true, true
		p.mu.Unlock()
		p.wg.Add(2)
		go p.requests(c, up)
		go p.replies(c, up)
	}
}

func (p *lossy) requests(c, up net.Conn) {
	defer p.wg.Done()
	defer func() { _ = up.Close() }()
	buf := make([]byte, 64<<10)
	for {
		n, err := c.Read(buf)
		if err != nil {
			return
		}
		p.mu.Lock()
		if p.left > 0 && bytes.Contains(bytes.ToLower(buf[:n]), p.word) {
			p.left--
			p.conns[up] = false
		}
		p.mu.Unlock()
		if _, err := up.Write(buf[:n]); err != nil {
			return
		}
	}
}

func (p *lossy) replies(c, up net.Conn) {
	defer p.wg.Done()
	defer func() { _ = c.Close() }()
	buf := make([]byte, 64<<10)
	for {
		n, err := up.Read(buf)
		if err != nil {
			return
		}
		p.mu.Lock()
		keep, silent := p.conns[up], p.silent
		if !keep {
			p.lost++
		}
		p.mu.Unlock()
		switch {
		case keep:
			if _, err := c.Write(buf[:n]); err != nil {
				return
			}
		case !silent:
			return
		}
	}
}
