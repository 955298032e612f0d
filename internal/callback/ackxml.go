package callback

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
)

// lookupXML returns the trimmed text of the child of the root element that the path names. The document is at most
// transport.MaxBody long, its nesting takes no stack, and a DOCTYPE, which could define entities, is an error. Go's decoder
// knows only the five entities of XML.
func lookupXML(doc []byte, path []string) (string, error) {
	f := xmlFinder{name: path[0]}
	for d := xml.NewDecoder(bytes.NewReader(doc)); ; {
		token, err := d.Token()
		switch {
		case errors.Is(err, io.EOF) && f.roots > 0:
			if !f.found {
				return "", fmt.Errorf("%s does not exist", f.name)
			}
			return strings.TrimSpace(f.text.String()), nil
		case err != nil:
			return "", errors.New("the body is not XML in UTF-8")
		}

		if err := f.read(token); err != nil {
			return "", err
		}
	}
}

// xmlFinder collects the text of one child of the root element.
type xmlFinder struct {
	name         string
	depth, roots int
	inside       bool // in the child
	found        bool
	text         strings.Builder
}

func (f *xmlFinder) read(token xml.Token) error {
	switch t := token.(type) {
	case xml.Directive:
		return errors.New("it has a DOCTYPE or another directive")
	case xml.StartElement:
		if f.depth++; f.depth == 1 {
			f.roots++
		}

		switch {
		case f.roots > 1:
			return errors.New("more than one root element")
		case f.inside:
			return fmt.Errorf("%s contains elements", f.name)
		case f.depth == 2 && t.Name.Local == f.name && f.found:
			return fmt.Errorf("%s occurs more than once", f.name)
		case f.depth == 2 && t.Name.Local == f.name:
			f.inside, f.found = true, true
		}
	case xml.EndElement:
		f.depth, f.inside = f.depth-1, false
	case xml.CharData:
		switch {
		case f.inside:
			f.text.Write(t)
		case f.depth == 0 && len(bytes.TrimSpace(t)) > 0:
			return errors.New("text outside of the root element")
		}
	}

	return nil
}
