package main

import (
	"cmp"
	"debug/buildinfo"
	"debug/elf"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

const (
	standard = "standard library and runtime"
	nameless = "types, strings and other data without a symbol"
	tables   = ".gopclntab"
)

// size is the number of bytes of a module.
type size struct{ code, data, tables float64 }

func (s size) total() float64 { return s.code + s.data + s.tables }

// binsize prints how many MB (1,000,000 bytes) each Go module adds to the size of the Linux program in a file, largest first:
//
//	CGO_ENABLED=0 go build -trimpath -o /tmp/notifier ./cmd/notifier && go run ./internal/tools binsize /tmp/notifier
//
// The program must be built with symbols, so without -s. The size of a module is that of its code and data, and a share
// of the program's tables of functions and lines (.gopclntab) in proportion to its code. Types and strings have no
// symbols, so one row has their size for all modules together.
func binsize(path string, w io.Writer) error {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return err
	}

	modules := []string{info.Main.Path}
	for _, m := range info.Deps {
		modules = append(modules, m.Path)
	}

	f, err := elf.Open(path)
	if err != nil {
		return err
	}

	defer func() { _ = f.Close() }()
	sizes, err := measureSizes(f, modules)
	if err != nil {
		return err
	}

	names := slices.SortedFunc(maps.Keys(sizes), func(a, b string) int {
		return cmp.Or(cmp.Compare(sizes[b].total(), sizes[a].total()), cmp.Compare(a, b))
	})
	sum := 0.0
	for _, name := range names {
		s := sizes[name]
		fmt.Fprintf(w, "%6.2f  code %5.2f  data %5.2f  tables %5.2f  %s\n", s.total()/1e6, s.code/1e6, s.data/1e6, s.tables/1e6, name)
		sum += s.total()
	}

	_, err = fmt.Fprintf(w, "%6.2f  all modules\n", sum/1e6)
	return err
}

// measureSizes returns the sizes by module.
func measureSizes(f *elf.File, modules []string) (map[string]size, error) {
	symbols, err := f.Symbols()
	if err != nil {
		return nil, fmt.Errorf("%w (build the program without -ldflags -s)", err)
	}

	sizes, code, counted := map[string]size{}, 0.0, 0.0
	for _, s := range symbols {
		if int(s.Section) >= len(f.Sections) {
			continue // not in the file
		}

		section := f.Sections[s.Section]
		name := moduleOf(s.Name, modules)
		of := sizes[name]
		switch {
		case section.Type == elf.SHT_NOBITS || section.Name == tables:
			continue
		case section.Flags&elf.SHF_EXECINSTR != 0:
			of.code += float64(s.Size)
			code += float64(s.Size)
		default:
			of.data += float64(s.Size)
		}

		sizes[name] = of
		counted += float64(s.Size)
	}

	sizes[nameless] = size{data: loaded(f) - counted}
	if section := f.Section(tables); section != nil && code > 0 {
		for name, s := range sizes {
			s.tables = float64(section.Size) * s.code / code
			sizes[name] = s
		}
	}

	return sizes, nil
}

// loaded returns the bytes of the file that a process maps, without the tables.
func loaded(f *elf.File) (n float64) {
	for _, s := range f.Sections {
		if s.Flags&elf.SHF_ALLOC != 0 && s.Type != elf.SHT_NOBITS && s.Name != tables {
			n += float64(s.Size)
		}
	}
	return n
}

// moduleOf returns the module of a symbol: the longest path that its package begins with. The first module
// is that of package main.
func moduleOf(symbol string, modules []string) string {
	if strings.HasPrefix(symbol, "main.") {
		return modules[0]
	}

	for _, prefix := range []string{"type:.eq.", "type:.hash.", "go:itab."} {
		symbol = strings.TrimPrefix(symbol, prefix)
	}

	symbol = strings.ReplaceAll(strings.TrimLeft(symbol, "*"), "%2e", ".")
	best := ""
	for _, m := range modules {
		if rest, ok := strings.CutPrefix(symbol, m); ok && len(m) > len(best) && (rest == "" || rest[0] == '.' || rest[0] == '/') {
			best = m
		}
	}

	return cmp.Or(best, standard)
}
