module notifier/test/verifiers

go 1.26.0

require (
	github.com/go-jose/go-jose/v4 v4.1.9
	github.com/go-pay/gopay v1.5.109
	github.com/google/go-github/v72 v72.0.0
	github.com/smartwalle/alipay/v3 v3.2.25
	github.com/standard-webhooks/standard-webhooks/libraries v0.0.1
	github.com/stripe/stripe-go/v82 v82.5.1
	github.com/wechatpay-apiv3/wechatpay-go v0.2.21
)

require (
	github.com/go-pay/crypto v0.0.1 // indirect
	github.com/go-pay/xlog v0.0.3 // indirect
	github.com/go-pay/xtime v0.0.2 // indirect
	github.com/google/go-querystring v1.1.0 // indirect
	github.com/smartwalle/ncrypto v1.0.4 // indirect
	github.com/smartwalle/ngx v1.0.9 // indirect
	github.com/smartwalle/nsign v1.0.9 // indirect
)
