// Package verifiers checks the signatures of real callbacks with third-party libraries. A service, the built program,
// calls receivers that verify as a merchant does.
//
//	standard         standard-webhooks/libraries v0.0.1, the official library
//	standard-ed25519 openssl; the official library's pull request 253 and Svix's Go library
//	                 cannot be had as a module, or verify HMAC only
//	stripe           stripe-go v82.5.1
//	github           go-github v72.0.0
//	wechatpay        wechatpay-go v0.2.21
//	alipay           smartwalle/alipay v3.2.25 and go-pay/gopay v1.5.109
//	sorted           go-pay/gopay v1.5.109, which has the rule of WeChat Pay's API v2
//	sorted-jeepay    the order of the JDK, String.CASE_INSENSITIVE_ORDER, as Jeepay's SDK for Java has it
//	jws              go-jose v4.1.9, with the published key set
//
// The code of docs/examples/verify is tested in each of its languages; scripts/verifiers-deps.sh installs them. Access
// tokens come from an issuer built on ory/fosite v0.49.0.
//
// The package is a separate module, so that the service does not depend on these libraries.
package verifiers
