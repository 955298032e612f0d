// Opens a sealed text with a service key, for programs that may not call POST /v1/open: see docs/security.md, "Format of sealed texts".
//
//   java Open.java NAMESPACE DATA_KEY_FIELD NOTICE_KEY TEXT     (17 or newer; SERVICE_KEYS is NOTIFIER_SEAL_KEYS)
//
// DATA_KEY_FIELD is the value of the data key in Redis: redis-cli HGET 'notifier:{0}:seals' <the second part of TEXT>.
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Base64;
import javax.crypto.Cipher;
import javax.crypto.Mac;
import javax.crypto.spec.GCMParameterSpec;
import javax.crypto.spec.SecretKeySpec;

public class Open {
    static final String VERSION = "notifier-seal-1";

    public static void main(String[] args) throws Exception {
        if (args.length != 4) {
            System.err.println("usage: java Open.java NAMESPACE DATA_KEY_FIELD NOTICE_KEY TEXT, with SERVICE_KEYS in the environment");
            System.exit(2);
        }
        System.out.write(open(System.getenv("SERVICE_KEYS"), args[0], args[1], args[2], args[3]));
        System.out.flush();
    }

    /** Returns the plain text. It throws an exception if the text was changed, or is of another notice, key or namespace. */
    static byte[] open(String serviceKeys, String namespace, String field, String notice, String text) throws Exception {
        String[] parts = text.split(":"); // s1c, id of the data key, box
        String kind = switch (parts[0]) {
            case "s1c" -> "content";
            case "s1a" -> "answer";
            case "s1h" -> "history";
            case "s1r" -> "recurring";
            default -> throw new IllegalArgumentException("not a sealed text");
        };
        if (kind.equals("recurring")) notice = notice.replaceFirst("~[1-9][0-9]*$", ""); // its notices have its text
        String[] stored = field.split(" "); // subject, wrapped key
        String[] wrap = stored[1].split(":"); // w1, name of the service key, box
        byte[] dataKey = decrypt(serviceKey(serviceKeys, wrap[1]), wrap[2], "data key", namespace, stored[0], parts[1], wrap[1]);
        return decrypt(dataKey, parts[2], kind, namespace, parts[1], notice);
    }

    static byte[] serviceKey(String keys, String name) {
        for (String part : keys.split(",")) {
            String[] pair = part.strip().split("=", 2);
            if (pair[0].equals(name)) return Base64.getDecoder().decode(pair[1]);
        }
        throw new IllegalArgumentException("SERVICE_KEYS has no key " + name);
    }

    /** Opens a box. The first name is its use. */
    static byte[] decrypt(byte[] secret, String box, String... names) throws Exception {
        byte[] raw = Base64.getUrlDecoder().decode(box);
        byte[] salt = Arrays.copyOf(raw, 16);
        String bound = VERSION + "\n" + String.join("\n", names) + "\n" + Base64.getUrlEncoder().withoutPadding().encodeToString(salt);
        var cipher = Cipher.getInstance("AES/GCM/NoPadding");
        cipher.init(Cipher.DECRYPT_MODE, new SecretKeySpec(hkdf(secret, salt, names[0]), "AES"), new GCMParameterSpec(128, new byte[12]));
        cipher.updateAAD(bound.getBytes(StandardCharsets.UTF_8));
        return cipher.doFinal(raw, 16, raw.length - 16);
    }

    /** HKDF-SHA-256 of 32 bytes, which are one block. */
    static byte[] hkdf(byte[] secret, byte[] salt, String info) throws Exception {
        byte[] key = hmac(salt, secret);
        byte[] use = info.getBytes(StandardCharsets.UTF_8);
        byte[] block = Arrays.copyOf(use, use.length + 1);
        block[use.length] = 1;
        return hmac(key, block);
    }

    static byte[] hmac(byte[] key, byte[] text) throws Exception {
        var mac = Mac.getInstance("HmacSHA256");
        mac.init(new SecretKeySpec(key, "HmacSHA256"));
        return mac.doFinal(text);
    }
}
