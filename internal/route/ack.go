package route

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// AckKind is the part of an answer that acknowledges a delivery.
type AckKind string

// The kinds of acknowledgement.
const (
	Ack2xx    AckKind = "2xx"
	AckStatus AckKind = "status"
	AckBody   AckKind = "body"
	AckJSON   AckKind = "json"
	AckXML    AckKind = "xml"
	// AckReport is for lists and streams: the consumer reports within the route's timeout. Without it, the
	// push is the delivery.
	AckReport AckKind = "report"
)

// Ack is a route's rule of acknowledgement.
type Ack struct {
	Kind   AckKind
	Status []int    // of AckStatus
	Path   []string // of AckJSON: data.code = ["data","code"]; of AckXML: the name of a child of the root element
	// Values are the accepted texts: of AckBody the whole body after trimming white space, of AckJSON and AckXML the value at Path.
	Values []string
}

// AckForms lists the acknowledgements of HTTP targets, for errors.
const AckForms = "2xx, status:200,204, body:success, body:success|ok, json:code=SUCCESS or xml:return_code=SUCCESS"

// ParseAck parses 2xx, status:200,204, body:success|ok, json:data.code=SUCCESS, xml:return_code=SUCCESS and report.
func ParseAck(s string) (Ack, error) {
	kind, rest, has := strings.Cut(s, ":")
	switch {
	case s == "2xx":
		return Ack{Kind: Ack2xx}, nil
	case s == "report":
		return Ack{Kind: AckReport}, nil
	case kind == "status" && has:
		return parseStatusAck(s, rest)
	case (kind == "body" || kind == "json" || kind == "xml") && has:
		return parseTextAck(s, AckKind(kind), rest)
	}

	return Ack{}, badAck(s)
}

func badAck(s string) error {
	return fmt.Errorf("%q is not an acknowledgement; want %s; or report", s, AckForms)
}

// parseStatusAck parses the comma-separated codes of the acknowledgement s.
func parseStatusAck(s, codes string) (Ack, error) {
	ack := Ack{Kind: AckStatus}
	for f := range strings.SplitSeq(codes, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(f))
		if err != nil || n < 200 || n > 299 {
			return Ack{}, fmt.Errorf("%q: %q is not a status from 200 to 299", s, f)
		}

		ack.Status = append(ack.Status, n)
	}

	return ack, nil
}

// parseTextAck parses what follows the kind in the acknowledgement s: texts separated by |, after path= for json and xml.
func parseTextAck(s string, kind AckKind, rest string) (Ack, error) {
	ack, values := Ack{Kind: kind}, rest
	if kind != AckBody {
		if !utf8.ValidString(rest) {
			return Ack{}, fmt.Errorf("%q is not UTF-8, so no answer can match", s)
		}

		path, after, ok := strings.Cut(rest, "=")
		if ack.Path, values = strings.Split(path, "."), after; !ok || slices.Contains(ack.Path, "") {
			return Ack{}, badAck(s)
		}
	}

	if kind == AckXML && (len(ack.Path) > 1 || strings.ContainsAny(ack.Path[0], ":<>/ ")) {
		return Ack{}, fmt.Errorf("%q: want the name of a child of the root element, such as return_code", s)
	}

	for v := range strings.SplitSeq(values, "|") {
		if kind != AckJSON { // the values of answers are trimmed too
			v = strings.TrimSpace(v)
		}

		if v == "" || slices.Contains(ack.Values, v) {
			return Ack{}, fmt.Errorf("%q: between %q want one or more different texts, such as success|ok", s, "|")
		}

		ack.Values = append(ack.Values, v)
	}

	return ack, nil
}

// String returns the form that ParseAck parses.
func (a Ack) String() string {
	values := strings.Join(a.Values, "|")
	switch a.Kind {
	case AckStatus:
		s := make([]string, len(a.Status))
		for i, n := range a.Status {
			s[i] = strconv.Itoa(n)
		}

		return "status:" + strings.Join(s, ",")
	case AckBody:
		return "body:" + values
	case AckJSON, AckXML:
		return string(a.Kind) + ":" + strings.Join(a.Path, ".") + "=" + values
	case AckReport:
		return "report"
	case Ack2xx:
	}

	return "2xx"
}
