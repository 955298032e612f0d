package clienttest_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"notifier/client"
	"notifier/client/clienttest"
	"notifier/internal/notice"
)

// deadLetters returns a service with three dead letters, whose receiver counts its calls.
func deadLetters(t *testing.T, o clienttest.Options) (*clienttest.Service, *int) {
	t.Helper()
	calls := new(int)
	o.Receiver = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		*calls++
		w.WriteHeader(http.StatusGone)
	})
	s := clienttest.New(o)
	t.Cleanup(s.Close)
	for i := range 3 {
		if _, err := s.Client().Schedule(t.Context(), client.Request{Key: fmt.Sprint("shop:orders:paid:", i),
			URL: "https://Shop.example./"}); err != nil {
			t.Fatal(err)
		}
	}
	if n := s.Advance(0); n != 3 {
		t.Fatalf("%d attempts, want 3", n)
	}
	return s, calls
}

func TestRedriveAtARateMakesNoticesDueOneByOne(t *testing.T) {
	s, calls := deadLetters(t, clienttest.Options{})
	r, err := s.Client().RedriveRoute(t.Context(), "all", client.Bulk{Host: "shop.example", Rate: "30/m"})
	if err != nil || r.Matched != 3 || r.Redriven != 3 {
		t.Fatalf("%+v, %v", r, err)
	}
	for i, wait := range []time.Duration{0, 2 * time.Second, 2 * time.Second} {
		if n := s.Advance(wait - min(wait, time.Millisecond)); i > 0 && n != 0 {
			t.Errorf("%d attempts before notice %d is due", n, i)
		}
		s.Advance(min(wait, time.Millisecond))
		if *calls != 3+i+1 {
			t.Errorf("%d calls after %d redriven notices", *calls, i+1)
		}
	}
}

func TestDryRunsChangeNothing(t *testing.T) {
	s, _ := deadLetters(t, clienttest.Options{})
	c := s.Client()
	if r, err := c.RedriveRoute(t.Context(), "all", client.Bulk{DryRun: true}); err != nil || r.Matched != 3 || r.Redriven != 0 {
		t.Errorf("%+v, %v", r, err)
	}
	if r, err := c.Purge(t.Context(), "all", client.Bulk{DryRun: true}); err != nil || r.Matched != 3 || r.Purged != 0 {
		t.Errorf("%+v, %v", r, err)
	}
	if r, err := c.Purge(t.Context(), "all", client.Bulk{}); err != nil || r.Purged != 3 {
		t.Errorf("%+v, %v", r, err)
	}
}

// The service refuses other reasons, so a test with a misspelt one must fail.
func TestReasonsAreThoseOfTheService(t *testing.T) {
	s, _ := deadLetters(t, clienttest.Options{})
	for _, reason := range notice.Reasons {
		if _, err := s.Client().Purge(t.Context(), "all", client.Bulk{DryRun: true, Reason: string(reason)}); err != nil {
			t.Errorf("%s: %v", reason, err)
		}
	}
}

func TestSendTestCallsTheReceiverOnce(t *testing.T) {
	var got []string
	s := clienttest.New(clienttest.Options{Routes: []clienttest.Route{{Name: "all"}},
		Receiver: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
			}
			got = append(got, r.Header.Get("Notifier-Key")+" "+r.URL.Path+" "+string(body))
			w.WriteHeader(http.StatusServiceUnavailable)
		})})
	defer s.Close()
	c := s.Client()
	n, err := c.Schedule(t.Context(), client.Request{Key: "shop:orders:paid:1", URL: "https://shop.example/hook", Delay: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	r, err := c.SendTest(t.Context(), n.Key)
	if err != nil || r.Acknowledged() || r.Status != 503 || r.Reason != "status_5xx" || r.Host != "shop.example" ||
		r.Next() != 15*time.Second {
		t.Errorf("%+v, %v", r, err)
	}
	if want := `test:test:test:test /hook {"test":true}`; strings.Join(got, "; ") != want {
		t.Errorf("the receiver got %q, want %q", got, want)
	}
	if after, err := c.Get(t.Context(), n.Key); err != nil || string(after.JSON) == "" || after.AttemptsMade != 0 || !after.Due.Equal(n.Due) {
		t.Errorf("%+v, %v", after, err)
	}
}
