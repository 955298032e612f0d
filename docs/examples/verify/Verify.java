import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.security.*;
import java.security.spec.X509EncodedKeySpec;
import java.util.*;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

class Verify {
    static boolean fresh(String seconds) {
        return Math.abs(System.currentTimeMillis() / 1000 - Long.parseLong(seconds)) <= 300;
    }

    static byte[] join(byte[]... parts) {
        var out = new java.io.ByteArrayOutputStream();
        for (byte[] part : parts) out.writeBytes(part);
        return out.toByteArray();
    }

    static boolean rsaFits(String publicPem, byte[] text, String signature) throws GeneralSecurityException {
        byte[] der = Base64.getMimeDecoder().decode(publicPem.replaceAll("-----[A-Z ]+-----", ""));
        Signature s = Signature.getInstance("SHA256withRSA");
        s.initVerify(KeyFactory.getInstance("RSA").generatePublic(new X509EncodedKeySpec(der)));
        s.update(text);
        return s.verify(Base64.getDecoder().decode(signature));
    }

    static boolean standard(String secret, Map<String, String> headers, byte[] body) throws GeneralSecurityException {
        Mac mac = Mac.getInstance("HmacSHA256");
        mac.init(new SecretKeySpec(Base64.getDecoder().decode(secret.substring("whsec_".length())), "HmacSHA256"));
        mac.update((headers.get("webhook-id") + "." + headers.get("webhook-timestamp") + ".").getBytes(StandardCharsets.UTF_8));
        byte[] want = ("v1," + Base64.getEncoder().encodeToString(mac.doFinal(body))).getBytes(StandardCharsets.UTF_8);
        boolean right = false;
        for (String given : headers.get("webhook-signature").split(" ")) {
            right |= MessageDigest.isEqual(want, given.getBytes(StandardCharsets.UTF_8));
        }
        return right && fresh(headers.get("webhook-timestamp"));
    }

    static boolean wechatpay(String publicPem, Map<String, String> headers, byte[] body) throws GeneralSecurityException {
        String head = headers.get("wechatpay-timestamp") + "\n" + headers.get("wechatpay-nonce") + "\n";
        byte[] text = join(head.getBytes(StandardCharsets.UTF_8), body, "\n".getBytes(StandardCharsets.UTF_8));
        return fresh(headers.get("wechatpay-timestamp")) && rsaFits(publicPem, text, headers.get("wechatpay-signature"));
    }

    static TreeMap<String, String> form(byte[] body) { // null if a field is given twice
        var form = new TreeMap<String, String>();
        for (String field : new String(body, StandardCharsets.UTF_8).split("&")) {
            String[] pair = field.split("=", 2);
            String name = URLDecoder.decode(pair[0], StandardCharsets.UTF_8);
            if (form.put(name, URLDecoder.decode(pair.length > 1 ? pair[1] : "", StandardCharsets.UTF_8)) != null) return null;
        }
        return form;
    }

    static boolean alipay(String publicPem, Map<String, String> headers, byte[] body) throws GeneralSecurityException {
        var form = form(body);
        String sign = form == null ? null : form.remove("sign");
        if (sign == null || !"RSA2".equals(form.remove("sign_type"))) return false;
        var parts = new ArrayList<String>();
        form.forEach((name, value) -> parts.add(name + "=" + value));
        return rsaFits(publicPem, String.join("&", parts).getBytes(StandardCharsets.UTF_8), sign);
    }

    // Of forms; a JSON object needs a parser that keeps numbers as they are written.
    static boolean sorted(String key, byte[] body, boolean jeepay) throws GeneralSecurityException {
        var form = form(body);
        String sign = form == null ? null : form.remove("sign");
        if (sign == null) return false;
        var pairs = new ArrayList<String>(); // in the order of the names
        form.forEach((name, value) -> { if (!value.isEmpty()) pairs.add(name + "=" + value + "&"); });
        if (jeepay) pairs.sort(String.CASE_INSENSITIVE_ORDER);
        byte[] text = (String.join("", pairs) + "key=" + key).getBytes(StandardCharsets.UTF_8), sum;
        if ("HMAC-SHA256".equals(form.get(jeepay ? "signType" : "sign_type"))) {
            Mac mac = Mac.getInstance("HmacSHA256");
            mac.init(new SecretKeySpec(key.getBytes(StandardCharsets.UTF_8), "HmacSHA256"));
            sum = mac.doFinal(text);
        } else {
            sum = MessageDigest.getInstance("MD5").digest(text);
        }
        byte[] want = HexFormat.of().withUpperCase().formatHex(sum).getBytes(StandardCharsets.UTF_8);
        return MessageDigest.isEqual(want, sign.getBytes(StandardCharsets.UTF_8));
    }
}
