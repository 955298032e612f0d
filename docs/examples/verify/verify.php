<?php
function fresh(string $seconds): bool {
    return abs(time() - (int) $seconds) <= 300;
}

function rsa_fits(string $publicPem, string $text, string $signature): bool {
    return openssl_verify($text, base64_decode($signature), $publicPem, OPENSSL_ALGO_SHA256) === 1;
}

function standard(string $secret, array $headers, string $body): bool {
    $key = base64_decode(substr($secret, strlen('whsec_')));
    $text = $headers['webhook-id'] . '.' . $headers['webhook-timestamp'] . '.' . $body;
    $want = 'v1,' . base64_encode(hash_hmac('sha256', $text, $key, true));
    $right = false;
    foreach (explode(' ', $headers['webhook-signature']) as $given) {
        $right = hash_equals($want, $given) || $right;
    }
    return $right && fresh($headers['webhook-timestamp']);
}

function wechatpay(string $publicPem, array $headers, string $body): bool {
    $text = $headers['wechatpay-timestamp'] . "\n" . $headers['wechatpay-nonce'] . "\n" . $body . "\n";
    return fresh($headers['wechatpay-timestamp']) && rsa_fits($publicPem, $text, $headers['wechatpay-signature']);
}

function form(string $body): ?array { // null if a field is given twice
    $form = [];
    foreach (explode('&', $body) as $field) { // $_POST would change names with dots and blanks
        [$name, $value] = array_map('urldecode', explode('=', $field, 2) + [1 => '']);
        if (isset($form[$name])) return null;
        $form[$name] = $value;
    }
    return $form;
}

function alipay(string $publicPem, array $headers, string $body): bool {
    $form = form($body);
    if (($form['sign_type'] ?? '') !== 'RSA2' || !isset($form['sign'])) return false;
    $sign = $form['sign'];
    unset($form['sign'], $form['sign_type']);
    ksort($form, SORT_STRING);
    $parts = [];
    foreach ($form as $name => $value) $parts[] = "$name=$value";
    return rsa_fits($publicPem, implode('&', $parts), $sign);
}

// Of forms; a JSON object needs a parser that keeps numbers as they are written.
function sorted_fields(string $key, array $headers, string $body, bool $jeepay = false): bool {
    $form = form($body);
    if (!isset($form['sign'])) return false;
    $order = fn ($name) => $jeepay ? strtolower("$name=") : (string) $name;
    uksort($form, fn ($a, $b) => strcmp($order($a), $order($b)));
    $text = '';
    foreach ($form as $name => $value) if ($name !== 'sign' && $value !== '') $text .= "$name=$value&";
    $hmac = ($form[$jeepay ? 'signType' : 'sign_type'] ?? '') === 'HMAC-SHA256';
    $want = $hmac ? hash_hmac('sha256', "{$text}key=$key", $key) : md5("{$text}key=$key");
    return hash_equals(strtoupper($want), $form['sign']);
}

function sorted_jeepay(string $key, array $headers, string $body): bool {
    return sorted_fields($key, $headers, $body, true);
}
