package api

import (
	"encoding/json"
	"testing"

	"notifier/internal/codec"
	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/store"
)

func TestARecordThatCannotBeReadIsShownAsItStands(t *testing.T) {
	t.Parallel()
	table, err := route.NewTable(nil)
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Reason string `json:"reason"`
		Body   []byte `json:"body_base64"`
	}
	f := store.Found{Notice: notice.Unread("app1:orders:a:b", "app1", "garb\xffage"), State: notice.Dead}
	v := (&api{routes: table}).whole(&f, "")
	if err := json.Unmarshal(codec.Append(nil, &v), &got); err != nil {
		t.Fatal(err)
	}
	if got.Reason != "unreadable" || string(got.Body) != "garb\xffage" {
		t.Errorf("%+v", got)
	}
}
