package config

import (
	"context"
	"fmt"
	"strings"

	"github.com/sethvargo/go-envconfig"
)

// source is a Lookuper that takes an empty variable for one that is not set,
// and follows _FILE where a secret may stand in a file.
type source struct {
	lookup   envconfig.Lookuper
	readFile func(string) ([]byte, error)
}

func (s *source) value(name string) (string, bool) {
	v, ok := s.lookup.Lookup(name)
	v = strings.TrimSpace(v)
	return v, ok && v != ""
}

// reader collects what is wrong while it reads.
type reader struct {
	*source
	errs  Errors
	known map[string]bool
}

// fill reads the variables of one table under a prefix by go-envconfig.
func (r *reader) fill(prefix string, target any) {
	secrets := map[string]bool{}
	for f := range fields(elem(target)) {
		r.known[prefix+f.name] = true
		if f.secret {
			secrets[prefix+f.name] = true
			r.known[prefix+f.name+"_FILE"] = true
		}
	}
	look := envconfig.LookuperFunc(func(name string) (string, bool) {
		if secrets[name] {
			return r.secret(name)
		}
		return r.value(name)
	})
	err := envconfig.ProcessWith(context.Background(), &envconfig.Config{Target: target, Lookuper: envconfig.PrefixLookuper(prefix, look)})
	if err != nil {
		// The tables hold strings only: nothing an environment says leads here.
		r.errs = append(r.errs, Problem{Variable: prefix + "…", Want: fmt.Sprintf("the table of variables is wrong: %v", err)})
	}
}

// secret is a variable's value, or that of the file which <name>_FILE names.
func (r *reader) secret(name string) (string, bool) {
	v, ok := r.value(name)
	file, inFile := r.value(name + "_FILE")
	switch {
	case ok && inFile:
		r.add(name, "", "set either "+name+" or "+name+"_FILE, not both")
		return "", false
	case !inFile:
		return v, ok
	}
	b, err := r.readFile(file)
	if err != nil {
		r.add(name+"_FILE", file, "want the name of a file that can be read ("+cause(err)+")")
		return "", false
	}
	if v = strings.TrimSpace(string(b)); v == "" {
		r.add(name+"_FILE", file, "a file that is not empty")
		return "", false
	}
	return v, true
}

// wrong notes a variable of the service itself; add one by its whole name.
func (r *reader) wrong(name, value, want string) { r.add(Prefix+name, value, "want "+want) }

func (r *reader) add(variable, value, text string) {
	r.errs = append(r.errs, Problem{Variable: variable, Value: value, Want: text})
}
