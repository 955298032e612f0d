package cli

import (
	"errors"
	"io"
	"sync/atomic"
	"syscall"
)

// printing has the commands whose output is their product. They end when nobody reads it. Others complete their work.
var printing = map[string]bool{"audit": true, "demo": true, "export": true, "get": true, "history": true, "instances": true, "list": true,
	"listen": true, "problems": true, "receive": true, "receivers": true, "routes": true, "stats": true, "version": true}

// pipe is a standard output. It notices that its reader has closed it.
type pipe struct {
	io.Writer
	closed atomic.Bool
	end    func() // ends a printing command
}

// Write implements io.Writer.
func (p *pipe) Write(text []byte) (int, error) {
	n, err := p.Writer.Write(text)
	if errors.Is(err, syscall.EPIPE) && !p.closed.Swap(true) && p.end != nil {
		p.end()
	}

	return n, err
}

// prints reports whether the output is the product of the running command.
func (a *command) prints() bool { return a.running != nil && printing[a.running.Name()] }
