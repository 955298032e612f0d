package vault

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"notifier/internal/notice"
	"notifier/internal/recur"
	"notifier/internal/seal"
	"notifier/internal/wire"
)

// ErrSealed means that this instance cannot open a text, because a key is missing or another one has its name.
var ErrSealed = errors.New("a key of a sealed notice is missing")

// ErrUnknownKey is an ErrSealed: Redis does not have the data key of a text.
var ErrUnknownKey = fmt.Errorf("%w: Redis has no data key", ErrSealed)

// Vault seals and opens contents. It is safe for concurrent use.
type Vault struct {
	keys *seal.ServiceKeys // nil = there are none
	w    *wire.Client
	now  func() time.Time
	// KeyAge is how long a key is used after it was read. New sets it to the default, and only tests change it.
	KeyAge time.Duration

	urls    func(key string) bool // nil = no url is sealed
	archive Archive               // nil = there is none
	peers   Peers                 // nil = there are no other instances
	logger  *zap.Logger
	alone   atomic.Bool // no service key is common to all instances

	mu       sync.Mutex
	subjects map[place]held[*pair]
	opened   map[place]held[*seal.DataKey]
}

// place is a field of a shard's hash.
type place struct {
	shard int
	field string
}

// pair has the keys that seal the texts of a subject.
type pair struct {
	data   *seal.DataKey
	digest *seal.DigestKey
}

// New returns a Vault. keys may be nil: then nothing can be sealed or opened.
func New(keys *seal.ServiceKeys, w *wire.Client) *Vault {
	return &Vault{keys: keys, w: w, now: time.Now, KeyAge: KeyAge,
		subjects: map[place]held[*pair]{}, opened: map[place]held[*seal.DataKey]{}}
}

// SealURLs makes Seal also seal the query and the fragment of urls, of the notices for whose keys of returns true.
func (v *Vault) SealURLs(of func(key string) bool) { v.urls = of }

// Forget drops the cached keys of a shard.
func (v *Vault) Forget(shard int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	drop(v.subjects, shard)
	drop(v.opened, shard)
}

func (v *Vault) forgetAll() {
	for shard := range v.w.Space.Places() {
		v.Forget(shard)
	}
}

// Seal seals the secret part of a notice's content with the keys of a subject. A query that was sealed before stays sealed, whatever
// SealURLs says, because the instances may have different settings.
func (v *Vault) Seal(ctx context.Context, shard int, of seal.Subject, key string, c *notice.Content) error {
	return v.seal(ctx, shard, of, binding{seal.Content, key}, c)
}

// SealRecurring is Seal for the content of a recurring notice with that key. All its occurrences have the text.
func (v *Vault) SealRecurring(ctx context.Context, shard int, of seal.Subject, key string, c *notice.Content) error {
	return v.seal(ctx, shard, of, binding{seal.Recurring, key}, c)
}

// binding is the kind of a text, and the key that it is bound to.
type binding struct {
	kind seal.Kind
	key  string
}

// boundKey returns the key that a text of a notice is bound to: that of the notice or, if the text is the content of a recurring notice,
// that of its definition.
func boundKey(text seal.Text, key string) string {
	if definition, _, ok := recur.ParseOccurrence(key); ok && text.Kind == seal.Recurring {
		return definition
	}
	return key
}

func (v *Vault) seal(ctx context.Context, shard int, of seal.Subject, to binding, c *notice.Content) error {
	p, err := v.pair(ctx, shard, of)
	if err != nil {
		return err
	}

	return v.sealWith(p, to, c, c.URLSealed || c.ShowsQuery() && v.urls != nil && v.urls(to.key))
}

// SealOtherwise is Seal with the other form of the url: its query and fragment are clear if Seal seals them, and sealed if it does not.
func (v *Vault) SealOtherwise(ctx context.Context, shard int, of seal.Subject, key string, c *notice.Content) error {
	p, err := v.pair(ctx, shard, of)
	if err != nil {
		return err
	}

	return v.sealWith(p, binding{seal.Content, key}, c, v.urls == nil || !v.urls(key))
}

// sealWith seals a content. query says whether the query and the fragment of the url are sealed too.
func (v *Vault) sealWith(p *pair, to binding, c *notice.Content, query bool) error {
	secret := c.Secret(query)
	text, err := p.data.Seal(to.kind, v.space(), to.key, secret)
	if err != nil {
		return err
	}

	same, err := p.digest.Digest(v.space(), to.key, secret)
	if err == nil {
		c.Seal(text.String(), same, query)
	}

	return err
}

// SealNotice seals the content of a notice with the keys of a subject, and the answers to its attempts.
func (v *Vault) SealNotice(ctx context.Context, shard int, of seal.Subject, n *notice.Notice) error {
	p, err := v.pair(ctx, shard, of)
	if err != nil {
		return err
	}

	n.Attempts = slices.Clone(n.Attempts)
	for i := range n.Attempts {
		a := &n.Attempts[i]
		if a.Response == "" {
			continue
		}
		if a.Sealed, err = v.sealAnswer(p.data, n.Key, a.Response); err != nil {
			return err
		}

		a.Response = ""
	}

	return v.Seal(ctx, shard, of, n.Key, &n.Content)
}

// Open returns a sealed content opened. An error that wraps ErrSealed means that a key is missing.
func (v *Vault) Open(ctx context.Context, shard int, key string, c *notice.Content) (notice.Content, error) {
	secret, err := v.open(ctx, shard, key, c.Sealed)
	if err != nil {
		return notice.Content{}, err
	}

	return c.Opened(secret)
}

// OpenText opens the sealed text of a notice's content that may no longer be in Redis. An error that wraps ErrUnknownKey means that
// the text is of another service, or that Redis has lost the key.
func (v *Vault) OpenText(ctx context.Context, shard int, key, sealed string) (notice.Content, error) {
	if text, err := seal.ParseText(sealed); err != nil || !text.Kind.HasContent() {
		return notice.Content{}, cmp.Or(err, seal.ErrFormat)
	}

	secret, err := v.open(ctx, shard, key, sealed)
	if err != nil {
		return notice.Content{}, err
	}

	return notice.DecodeContent(secret)
}

// CheckForgotten returns a ForgottenError if the subject of a sealed text was forgotten. It needs no service key. Other errors are no
// reason not to deliver the text, and CheckForgotten returns nil.
func (v *Vault) CheckForgotten(ctx context.Context, shard int, sealed string) error {
	if _, _, err := v.keyOf(ctx, shard, sealed); !ForgottenAt(err).IsZero() {
		return err
	}
	return nil
}

// SealAnswer seals an answer with the data key of a sealed notice.
func (v *Vault) SealAnswer(ctx context.Context, shard int, n *notice.Notice, answer string) (string, error) {
	_, d, err := v.keyOf(ctx, shard, n.Sealed)
	if err != nil {
		return "", err
	}

	return v.sealAnswer(d, n.Key, answer)
}

func (v *Vault) sealAnswer(d *seal.DataKey, key, answer string) (string, error) {
	sealed, err := d.Seal(seal.Answer, v.space(), key, []byte(answer))
	return sealed.String(), err
}

// OpenFor is Open for an attempt. answer seals the answer to the attempt with the same data key.
func (v *Vault) OpenFor(ctx context.Context, shard int, n *notice.Notice) (c notice.Content, answer func(string) (string, error),
	err error) {
	text, d, err := v.keyOf(ctx, shard, n.Sealed)
	if err != nil {
		return c, nil, err
	}

	secret, err := d.Open(text, v.space(), boundKey(text, n.Key))
	if err != nil {
		return c, nil, err
	}

	c, err = n.Content.Opened(secret)
	return c, func(answer string) (string, error) { return v.sealAnswer(d, n.Key, answer) }, err
}

// OpenAnswers returns attempts with their answers opened.
func (v *Vault) OpenAnswers(ctx context.Context, shard int, n *notice.Notice) ([]notice.Attempt, error) {
	out := make([]notice.Attempt, len(n.Attempts))
	for i, a := range n.Attempts {
		if a.Sealed != "" {
			answer, err := v.open(ctx, shard, n.Key, a.Sealed)
			if err != nil {
				return nil, err
			}

			a.Response, a.Sealed = string(answer), ""
		}

		out[i] = a
	}

	return out, nil
}

func (v *Vault) open(ctx context.Context, shard int, key, sealed string) ([]byte, error) {
	text, d, err := v.keyOf(ctx, shard, sealed)
	if err != nil {
		return nil, err
	}

	return d.Open(text, v.space(), boundKey(text, key))
}

// keyOf parses a sealed text, and returns its data key.
func (v *Vault) keyOf(ctx context.Context, shard int, sealed string) (seal.Text, *seal.DataKey, error) {
	text, err := seal.ParseText(sealed)
	if err != nil {
		return text, nil, err
	}

	d, err := v.dataKey(ctx, shard, text.DataKey)
	return text, d, err
}

func (v *Vault) space() string { return v.w.Space.Namespace }

// dataKey returns the data key of a shard with that id.
func (v *Vault) dataKey(ctx context.Context, shard int, id string) (*seal.DataKey, error) {
	if d := fresh(v, v.opened, place{shard, id}); d != nil {
		return d, nil
	}

	began := v.now()
	value, _, err := v.keyValue(ctx, shard, id)
	if err == nil && value == "" {
		value, err = v.archived(ctx, id)
	}

	if err != nil {
		return nil, err
	}

	return v.unwrap(shard, id, held[string]{value, began})
}

// readDataKey reads a data key in Redis, which is to seal texts.
func (v *Vault) readDataKey(ctx context.Context, shard int, id string) (*seal.DataKey, error) {
	began := v.now()
	value, unused, err := v.keyValue(ctx, shard, id)
	if err == nil && unused {
		err = v.using(ctx, shard, id)
	}

	if err != nil {
		return nil, err
	}

	return v.unwrap(shard, id, held[string]{value, began})
}

// keyValue returns the value of a data key in Redis, and whether the shard has it marked as unused; "" = no place has it.
func (v *Vault) keyValue(ctx context.Context, shard int, id string) (value string, unused bool, err error) {
	value, unused, err = v.dataField(ctx, shard, id)
	if err == nil && value == "" {
		value, err = v.bringKey(ctx, shard, id)
		unused = false
	}

	return value, unused, err
}

// unwrap returns the data key of a value, and keeps it in memory.
func (v *Vault) unwrap(shard int, id string, read held[string]) (*seal.DataKey, error) {
	value := read.key
	of, wrapped, ok := strings.Cut(value, " ")
	if !ok {
		return nil, noDataKey(id)
	}

	if v.keys == nil {
		return nil, missing(seal.ErrNoKey, wrapped)
	}

	d, err := v.keys.UnwrapData(v.space(), seal.Subject(of), id, wrapped)
	if err != nil {
		return nil, missing(err, wrapped)
	}

	keep(v, v.opened, place{shard, id}, held[*seal.DataKey]{d, read.began})
	return d, nil
}

// errNoKeys is returned by an instance without service keys.
var errNoKeys = fmt.Errorf("%w: this instance has no service keys", ErrSealed)

// pair returns the keys of a subject in a shard, and stores new ones if there are none.
func (v *Vault) pair(ctx context.Context, shard int, of seal.Subject) (*pair, error) {
	at := place{shard, string(of)}
	if p := fresh(v, v.subjects, at); p != nil {
		return p, nil
	}
	if v.keys == nil {
		return nil, errNoKeys
	}

	began := v.now()
	value, err := v.field(ctx, shard, string(of))
	if err == nil && value == "" {
		value, err = v.create(ctx, shard, of)
	}

	if err != nil {
		return nil, err
	}

	p, err := v.read(ctx, shard, of, value)
	if err != nil {
		return nil, err
	}

	keep(v, v.subjects, at, held[*pair]{p, began})
	return p, nil
}

// read reads the value of a subject's field.
func (v *Vault) read(ctx context.Context, shard int, of seal.Subject, value string) (*pair, error) {
	parts := strings.Split(value, " ")
	if len(parts) != 3 {
		return nil, wire.BadReply("seal", "the field of %s is malformed", of)
	}

	digest, err := v.keys.UnwrapDigest(v.space(), of, parts[1], parts[2])
	if err != nil {
		return nil, missing(err, parts[2])
	}

	data, err := v.readDataKey(ctx, shard, parts[0])
	if err != nil {
		return nil, err
	}

	return &pair{data, digest}, nil
}

// create stores the keys of a subject in a shard that has none, and returns the value of the subject's field: another instance may
// have been first. They are those of the subject's home, and new ones if no place has keys.
func (v *Vault) create(ctx context.Context, shard int, of seal.Subject) (string, error) {
	at := home(v.w.Space, of)
	p, err := v.known(ctx, at, of)
	if err != nil {
		return "", err
	}

	if p.field == "" {
		if p, err = v.newPair(ctx, of); err != nil {
			return "", err
		}
	}

	value, err := v.store(ctx, at, of, p)
	if err != nil || at == shard {
		return value, err
	}

	if p, err = v.pairAt(ctx, at, value); err != nil {
		return "", err
	}

	return v.store(ctx, shard, of, p)
}

// known returns the keys of a subject that its home has, or else another place; the zero value = none has any.
func (v *Vault) known(ctx context.Context, at int, of seal.Subject) (pairOf, error) {
	places := v.others(at)
	if _, id := of.OrderKey(); id { // no other current shard has notices of it
		places = v.w.Space.Older()
	}

	value, place, err := v.find(ctx, string(of), append([]int{at}, places...))
	if err != nil || value == "" {
		return pairOf{}, err
	}

	return v.pairAt(ctx, place, value)
}

// pairAt returns the keys that a place has, from the value of the subject's field.
func (v *Vault) pairAt(ctx context.Context, place int, value string) (p pairOf, err error) {
	id, _, _ := strings.Cut(value, " ")
	wrapped, err := v.field(ctx, place, id)
	if err == nil && wrapped == "" {
		err = noDataKey(id)
	}

	return pairOf{value, id, wrapped}, err
}

func noDataKey(id string) error { return fmt.Errorf("%w %s", ErrUnknownKey, id) }

// newPair returns new keys of a subject.
func (v *Vault) newPair(ctx context.Context, of seal.Subject) (pairOf, error) {
	p, err := v.newData(ctx, of)
	if err != nil {
		return p, err
	}

	digest := seal.NewDigestKey()
	wrapped, err := v.wrapping(ctx).WrapDigest(v.space(), of, digest)
	p.field = p.id + " " + digest.ID + " " + wrapped
	return p, err
}

// newData returns a new data key of a subject.
func (v *Vault) newData(ctx context.Context, of seal.Subject) (pairOf, error) {
	data := seal.NewDataKey()
	wrapped, err := v.wrapping(ctx).WrapData(v.space(), of, data)
	return pairOf{id: data.ID, wrapped: string(of) + " " + wrapped}, err
}
