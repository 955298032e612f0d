// A receiver of callbacks, Java 17 or newer: WEBHOOK_SECRET=whsec_… PORT=8000 java Receiver.java
import com.sun.net.httpserver.*;
import java.net.InetSocketAddress;
import java.security.*;
import java.util.*;
import java.util.concurrent.*;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;
import static java.nio.charset.StandardCharsets.UTF_8;

class Receiver {
    // key: done. A database keeps them for some days, in the transaction of the work.
    static final ConcurrentMap<String, Boolean> events = new ConcurrentHashMap<>();

    static boolean valid(Headers headers, byte[] body) throws GeneralSecurityException {
        String id = header(headers, "webhook-id"), at = header(headers, "webhook-timestamp");
        if (!at.matches("\\d{1,15}") || Math.abs(System.currentTimeMillis() / 1000 - Long.parseLong(at)) > 300) return false;
        boolean right = false;
        for (String secret : System.getenv("WEBHOOK_SECRET").split(",")) {
            byte[] key = Base64.getDecoder().decode(secret.replace("whsec_", ""));
            if (key.length < 24) throw new InvalidKeyException("want secrets of 24 bytes or more");
            Mac mac = Mac.getInstance("HmacSHA256");
            mac.init(new SecretKeySpec(key, "HmacSHA256"));
            mac.update((id + "." + at + ".").getBytes(UTF_8));
            byte[] want = ("v1," + Base64.getEncoder().encodeToString(mac.doFinal(body))).getBytes(UTF_8);
            for (String given : header(headers, "webhook-signature").split(" ")) right |= MessageDigest.isEqual(want, given.getBytes(UTF_8));
        }
        return right;
    }

    static String header(Headers headers, String name) {
        return Objects.requireNonNullElse(headers.getFirst(name), "");
    }

    static void work(String event) { // a JSON library reads it
        System.out.println("paid " + event.replaceAll("(?s).*\"order\"\\s*:\\s*\"?(\\w+).*", "$1"));
    }

    /** Returns the status of the answer. */
    static int receive(Headers headers, byte[] body) throws GeneralSecurityException {
        if (!valid(headers, body)) return 401;
        String key = header(headers, "webhook-id") + "#" + header(headers, "notifier-resend"); // a resend is to be processed again
        Boolean done = events.putIfAbsent(key, false);
        if (done != null) return done ? 200 : 409; // 409: the same event is being processed, and is sent again later
        try {
            work(new String(body, UTF_8));
        } catch (RuntimeException | Error e) {
            System.out.println("failed " + e);
            events.remove(key); // the next attempt does the work again
            return 500;
        }
        events.put(key, true);
        return 200;
    }

    public static void main(String[] args) throws Exception {
        int port = Integer.parseInt(Objects.requireNonNullElse(System.getenv("PORT"), "8000"));
        HttpServer server = HttpServer.create(new InetSocketAddress(port), 0);
        server.setExecutor(Executors.newFixedThreadPool(16));
        server.createContext("/", exchange -> {
            try (exchange) {
                byte[] body = exchange.getRequestBody().readNBytes((1 << 20) + 1);
                exchange.sendResponseHeaders(body.length > 1 << 20 ? 413 : receive(exchange.getRequestHeaders(), body), -1);
            } catch (GeneralSecurityException e) {
                throw new IllegalStateException(e);
            }
        });
        server.start();
    }
}
