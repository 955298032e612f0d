// Schedules a notice, and verifies a callback's signature. Java 17 or newer, no libraries.
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.time.Duration;
import java.time.Instant;
import java.util.Base64;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

public class Notifier {
    private static final HttpClient HTTP = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).connectTimeout(Duration.ofSeconds(5)).build();

    /** Schedules a notice, which is JSON. Repeating is safe: the key and the content decide. */
    static HttpResponse<String> schedule(String base, String token, String notice, int tries) throws IOException, InterruptedException {
        HttpRequest request = HttpRequest.newBuilder(URI.create(base + "/v1/notices"))
                .timeout(Duration.ofSeconds(10))
                .header("Content-Type", "application/json")
                .header("Authorization", "Bearer " + token)
                .POST(HttpRequest.BodyPublishers.ofString(notice))
                .build();
        for (int attempt = 1; ; attempt++) {
            try {
                HttpResponse<String> response = HTTP.send(request, HttpResponse.BodyHandlers.ofString());
                // 201 created, 200 kept already; any status but 503 stays what it is.
                if (response.statusCode() != 503 || attempt == tries) {
                    return response;
                }
            } catch (IOException e) {
                if (attempt == tries) { // no answer: it may have arrived or not
                    throw e;
                }
            }
            Thread.sleep(Math.min(1L << attempt, 30) * 1000);
        }
    }

    /** Tells whether the callback is genuine. body: the bytes as received. secrets: two while rotating. */
    static boolean verify(String[] secrets, String id, String timestamp, String signature, byte[] body) throws GeneralSecurityException {
        long at;
        try {
            at = Long.parseLong(timestamp);
        } catch (NumberFormatException e) {
            return false;
        }
        if (Math.abs(Instant.now().getEpochSecond() - at) > 300) {
            return false;
        }
        boolean right = false;
        for (String secret : secrets) {
            Mac mac = Mac.getInstance("HmacSHA256");
            mac.init(new SecretKeySpec(Base64.getDecoder().decode(secret.substring("whsec_".length())), "HmacSHA256"));
            mac.update((id + "." + timestamp + ".").getBytes(StandardCharsets.UTF_8));
            byte[] want = ("v1," + Base64.getEncoder().encodeToString(mac.doFinal(body))).getBytes(StandardCharsets.UTF_8);
            for (String given : signature.split(" ")) {
                right |= MessageDigest.isEqual(given.getBytes(StandardCharsets.UTF_8), want);
            }
        }
        return right;
    }

    private static String env(String name, String otherwise) {
        String value = System.getenv(name);
        return value == null || value.isEmpty() ? otherwise : value;
    }

    public static void main(String[] args) throws Exception {
        if (args.length == 1 && args[0].equals("schedule")) {
            String url = env("HOOK_URL", "").isEmpty() ? "" : ",\"url\":\"" + env("HOOK_URL", "") + "\"";
            String notice = "{\"key\":\"" + env("KEY", "") + "\",\"delay\":\"15s\",\"body\":{\"order\":4711,\"paid\":true}" + url + "}";
            HttpResponse<String> response = schedule(env("NOTIFIER_URL", "http://127.0.0.1:8080"), env("NOTIFIER_TOKEN", "none"), notice, 5);
            System.out.println(response.statusCode());
            if (response.statusCode() >= 300) {
                System.err.println(response.body());
            }
            System.exit(response.statusCode() < 300 ? 0 : 1);
        }
        if (args.length == 4 && args[0].equals("verify")) {
            boolean right = verify(env("WEBHOOK_SECRET", "").split(","), args[1], args[2], args[3], System.in.readAllBytes());
            System.exit(right ? 0 : 1);
        }
        System.err.println("usage: Notifier.java schedule | verify ID TIMESTAMP SIGNATURE");
        System.exit(2);
    }
}
