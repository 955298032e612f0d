package history

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/binary"
	"fmt"
)

// SQLite moves rows from page to page when it splits or joins pages, and leaves copies of them in the unallocated part of
// the pages: secure_delete overwrites only the place where a row is when it is deleted. An erasure therefore overwrites
// the unallocated parts, too.

// overwriteCopies overwrites the unallocated part of each page of a table or index with zeros.
func (d *DB) overwriteCopies(ctx context.Context) error {
	tx, err := d.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}

	defer func() { _ = tx.Rollback() }() // no effect after a commit

	pages, err := pagesWithCopies(ctx, tx)
	if err != nil || len(pages) == 0 {
		return err
	}

	for _, n := range pages {
		var page []byte
		if err := tx.QueryRowContext(ctx, "SELECT data FROM sqlite_dbpage WHERE pgno = ?", n).Scan(&page); err != nil {
			return err
		}

		part, err := unallocated(n, page)
		if err != nil {
			return err
		}

		clear(part)
		if _, err := tx.ExecContext(ctx, "UPDATE sqlite_dbpage SET data = ? WHERE pgno = ?", page, n); err != nil {
			return err
		}
	}

	return tx.Commit()
}

// pagesWithCopies returns the numbers of the pages whose unallocated part is not zero.
func pagesWithCopies(ctx context.Context, tx *sql.Tx) (numbers []int64, err error) {
	rows, err := tx.QueryContext(ctx, `SELECT pageno, data FROM dbstat JOIN sqlite_dbpage ON pgno = pageno
		WHERE pagetype IN ('internal', 'leaf')`)
	if err != nil {
		return nil, err
	}

	defer func() { _ = rows.Close() }()

	for rows.Next() {
		var n int64
		var page sql.RawBytes
		if err := rows.Scan(&n, &page); err != nil {
			return nil, err
		}

		part, err := unallocated(n, page)
		if err != nil {
			return nil, err
		}

		if len(bytes.TrimLeft(part, "\x00")) > 0 {
			numbers = append(numbers, n)
		}
	}

	return numbers, rows.Err()
}

const (
	fileHeader      = 100 // bytes of page 1 before its own header
	leafHeader      = 8
	internalHeader  = 12
	internalIndex   = 2 // kinds of pages
	internalTable   = 5
	leafIndex       = 10
	leafTable       = 13
	largestPageSize = 65536
)

// unallocated returns the part of a table's or index's page between the pointers to its cells and the first cell. Source:
// section 1.6 of https://www.sqlite.org/fileformat2.html.
func unallocated(number int64, page []byte) ([]byte, error) {
	from := 0
	if number == 1 {
		from = fileHeader
	}

	if len(page) < from+internalHeader {
		return nil, damaged(number)
	}

	head := page[from:]
	switch head[0] {
	case leafIndex, leafTable:
		from += leafHeader
	case internalIndex, internalTable:
		from += internalHeader
	default:
		return nil, damaged(number)
	}

	from += 2 * int(binary.BigEndian.Uint16(head[3:])) // the pointers
	to := int(binary.BigEndian.Uint16(head[5:]))
	if to == 0 {
		to = largestPageSize
	}

	if from > to || to > len(page) {
		return nil, damaged(number)
	}

	return page[from:to], nil
}

func damaged(page int64) error {
	return fmt.Errorf("the rows are gone, but copies may be left: page %d is damaged; PRAGMA integrity_check shows all damage", page)
}
