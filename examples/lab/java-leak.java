import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Executors;

/** A server with a planted leak: it keeps a session of every request. LEAK=0 is its healthy twin. */
class JavaLeak {
    static final boolean LEAKS = !"0".equals(System.getenv("LEAK"));
    static final List<Session> SESSIONS = new ArrayList<>();

    record Session(int number, byte[] state) {}

    static synchronized void remember() {
        SESSIONS.add(new Session(SESSIONS.size(), new byte[2000]));
    }

    public static void main(String[] arguments) throws IOException {
        int port = arguments.length > 0 ? Integer.parseInt(arguments[0]) : 18004;
        // Head and body are two segments, which would wait for each other (Nagle, delayed acknowledgments).
        System.setProperty("sun.net.httpserver.nodelay", "true");
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", port), 0);
        server.createContext("/", exchange -> {
            if (exchange.getRequestURI().getPath().equals("/collect")) {
                System.gc();
            } else if (LEAKS) {
                remember();
            }
            byte[] answer = "hello\n".getBytes();
            exchange.sendResponseHeaders(200, answer.length);
            exchange.getResponseBody().write(answer);
            // Close the body only: closing the exchange would close the connection.
            exchange.getResponseBody().close();
        });
        server.setExecutor(Executors.newFixedThreadPool(4));
        server.start();
    }
}
