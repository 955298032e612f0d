<?php
// A receiver of callbacks, PHP 8.1 or newer: WEBHOOK_SECRET=whsec_… php -S 0.0.0.0:8000 receiver.php

declare(strict_types=1);

function valid(string $id, string $at, string $signatures, string $body): bool
{
    if (!ctype_digit($at) || abs(time() - (int) $at) > 300) {
        return false;
    }
    $right = false;
    foreach (explode(',', (string) getenv('WEBHOOK_SECRET')) as $secret) {
        $key = base64_decode(str_replace('whsec_', '', $secret));
        if (strlen($key) < 24) {
            throw new RuntimeException('want secrets of 24 bytes or more');
        }
        $want = 'v1,' . base64_encode(hash_hmac('sha256', "$id.$at.$body", $key, true));
        foreach (explode(' ', $signatures) as $given) {
            $right = hash_equals($want, $given) || $right;
        }
    }
    return $right;
}

function work(array $event): void
{
    file_put_contents('php://stderr', "paid {$event['order']}\n");
}

/** Returns the status of the answer. */
function receive(string $id, string $resend, string $at, string $signatures, string $body): int
{
    if (!valid($id, $at, $signatures, $body)) {
        return 401;
    }
    // A locked file for each event, and for each resend of it. A database keeps them for some days, in the transaction of the work.
    $event = fopen((getenv('EVENTS') ?: sys_get_temp_dir()) . '/' . hash('sha256', "$id#$resend"), 'c+');
    if (!flock($event, LOCK_EX | LOCK_NB)) {
        return 409; // the same event is being processed, and is sent again later
    }
    if (fgets($event) === 'done') {
        return 200;
    }
    try {
        work(json_decode($body, true, 512, JSON_THROW_ON_ERROR));
    } catch (Throwable $error) {
        file_put_contents('php://stderr', "failed {$error->getMessage()}\n");
        return 500; // the next attempt does the work again
    }
    fwrite($event, 'done');
    return fclose($event) ? 200 : 500;
}

$body = file_get_contents('php://input', false, null, 0, (1 << 20) + 1);
$header = fn (string $name): string => $_SERVER['HTTP_' . $name] ?? '';
[$id, $resend, $at, $signatures] = array_map($header, ['WEBHOOK_ID', 'NOTIFIER_RESEND', 'WEBHOOK_TIMESTAMP', 'WEBHOOK_SIGNATURE']);
http_response_code(strlen($body) > 1 << 20 ? 413 : receive($id, $resend, $at, $signatures, $body));
