<?php
// Schedules a notice, and verifies a callback's signature. PHP 8.1 or newer, with curl.

declare(strict_types=1);

/** Schedules a notice and returns [status, answer]. Repeating is safe: the key and the content decide. */
function schedule(string $base, string $token, array $notice, int $tries = 5): array
{
    for ($attempt = 1; ; $attempt++) {
        $call = curl_init($base . '/v1/notices');
        curl_setopt_array($call, [
            CURLOPT_POST => true,
            CURLOPT_POSTFIELDS => json_encode($notice, JSON_THROW_ON_ERROR),
            CURLOPT_HTTPHEADER => ['Content-Type: application/json', 'Authorization: Bearer ' . $token],
            CURLOPT_RETURNTRANSFER => true,
            CURLOPT_TIMEOUT => 10,
        ]);
        $answer = curl_exec($call); // false: no answer, it may have arrived or not
        $status = curl_getinfo($call, CURLINFO_RESPONSE_CODE);
        // 201 created, 200 kept already; any status but 503 stays what it is.
        if ($answer !== false && ($status !== 503 || $attempt === $tries)) {
            return [$status, json_decode($answer, true)];
        }
        if ($attempt === $tries) {
            throw new RuntimeException(curl_error($call));
        }
        sleep(min(2 ** $attempt, 30));
    }
}

/** Tells whether the callback is genuine. $body: file_get_contents('php://input'). $secrets: two while rotating. */
function verify(array $secrets, string $id, string $timestamp, string $signature, string $body): bool
{
    if (!ctype_digit($timestamp) || abs(time() - (int) $timestamp) > 300) {
        return false;
    }
    $right = false;
    foreach ($secrets as $secret) {
        $key = base64_decode(substr($secret, strlen('whsec_')), true);
        if ($key === false) {
            continue;
        }
        $want = 'v1,' . base64_encode(hash_hmac('sha256', "$id.$timestamp.$body", $key, true));
        foreach (explode(' ', $signature) as $given) {
            $right = hash_equals($want, $given) || $right;
        }
    }
    return $right;
}

if (($argv[1] ?? '') === 'schedule') {
    $notice = ['key' => getenv('KEY'), 'delay' => '15s', 'body' => ['order' => 4711, 'paid' => true]];
    if (getenv('HOOK_URL')) {
        $notice['url'] = getenv('HOOK_URL');
    }
    [$status, $answer] = schedule(getenv('NOTIFIER_URL') ?: 'http://127.0.0.1:8080', getenv('NOTIFIER_TOKEN') ?: '', $notice);
    echo $status, "\n";
    if ($status >= 300) {
        fwrite(STDERR, ($answer['detail'] ?? '') . "\n");
    }
    exit($status < 300 ? 0 : 1);
}
if (($argv[1] ?? '') === 'verify' && count($argv) === 5) {
    exit(verify(explode(',', (string) getenv('WEBHOOK_SECRET')), $argv[2], $argv[3], $argv[4], stream_get_contents(STDIN)) ? 0 : 1);
}
fwrite(STDERR, "usage: notifier.php schedule | verify ID TIMESTAMP SIGNATURE\n");
exit(2);
