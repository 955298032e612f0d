package cli

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// The first bytes of a gzip file, and of a text that begins with a byte order mark.
const (
	gzipMagic = "\x1f\x8b"
	bom       = "\uFEFF"
)

// unpacked returns the text of a file that may be compressed with gzip, without a byte order mark.
func unpacked(file io.Reader) (io.Reader, error) {
	r := bufio.NewReaderSize(file, 64<<10)
	first, err := r.Peek(len(gzipMagic))
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if string(first) != gzipMagic {
		return r, skipBOM(r)
	}

	z, err := gzip.NewReader(r)
	if err != nil {
		return nil, fmt.Errorf("unpack gzip: %w", err)
	}

	text := bufio.NewReaderSize(gzipText{z}, 64<<10)
	return text, skipBOM(text)
}

// skipBOM skips a byte order mark, with which some programs begin UTF-8 files.
func skipBOM(text *bufio.Reader) error {
	first, err := text.Peek(len(bom))
	if string(first) == bom {
		_, err = text.Discard(len(bom))
	}

	if errors.Is(err, io.EOF) {
		err = nil
	}

	return err
}

// gzipText names gzip in read errors.
type gzipText struct{ z *gzip.Reader }

func (t gzipText) Read(p []byte) (int, error) {
	n, err := t.z.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = fmt.Errorf("unpack gzip: %w", err)
	}

	return n, err
}

// open reads the file from its start and finds the line to start from: the first one, or the one in the progress file
// of an interrupted run.
func (im *importer) open(f *os.File, path string) error {
	lines, size, err := im.measure(f)
	if err != nil {
		return fmt.Errorf("read %s: %w", f.Name(), err)
	}

	im.path = path
	if err := im.resume(size); err != nil {
		return err
	}

	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("read %s: %w", f.Name(), err)
	}

	text, err := unpacked(f)
	if err != nil {
		return fmt.Errorf("read %s: %w", f.Name(), err)
	}

	im.in = bufio.NewReaderSize(text, 1<<20)
	if _, err := io.CopyN(io.Discard, im.in, im.Offset); err != nil {
		return fmt.Errorf("read %s: %w", f.Name(), err)
	}

	im.bar = im.app.bar(lines, "importing", "lines")
	_ = im.bar.Set(im.Lines) // only drawing can fail
	return nil
}

// measure reads the whole file and returns the hash of its beginning, and the lines and bytes of its text. A truncated
// gzip file is refused here, before its first line is sent.
func (im *importer) measure(f *os.File) (lines, size int64, err error) {
	head := make([]byte, 4096)
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return 0, 0, err
	}

	sum := sha256.Sum256(head[:n])
	im.Head = hex.EncodeToString(sum[:8])

	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return 0, 0, err
	}

	text, err := unpacked(f)
	if err != nil {
		return 0, 0, err
	}

	return countLines(text)
}

// resume reads the progress file of an interrupted run, if there is one. size is the size of the file's text.
func (im *importer) resume(size int64) error {
	raw, err := os.ReadFile(im.path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}

	var p progress
	if json.Unmarshal(raw, &p) != nil || p.Head != im.Head || p.Offset > size {
		return fmt.Errorf("%s belongs to another file, or to this one before it was changed; remove it to start again, which is safe", im.path)
	}

	im.progress = p
	im.app.complain("import: continuing after line %d", p.Lines)
	return nil
}

// countLines counts a text's bytes and lines, including a last line without a line break.
func countLines(text io.Reader) (lines, size int64, err error) {
	buf, open := make([]byte, 1<<20), false
	for {
		n, err := text.Read(buf)
		if n > 0 {
			lines += int64(bytes.Count(buf[:n], []byte("\n")))
			size += int64(n)
			open = buf[n-1] != '\n'
		}

		if err == nil {
			continue
		}

		if open {
			lines++
		}

		if errors.Is(err, io.EOF) {
			err = nil
		}

		return lines, size, err
	}
}
