import java.io.FileOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.file.Path;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.yarn.server.MiniYARNCluster;

/** A real YARN in one process: a resource manager and two node managers, which start containers as processes. It
 * writes its configuration into the folder of its one argument, and ends when its standard input does. */
public final class YarnCluster {
    private YarnCluster() {}

    public static void main(String[] words) {
        int code = 1;
        try {
            run(Path.of(words[0], "yarn-site.xml"));
            code = 0;
        } catch (Throwable trouble) {
            trouble.printStackTrace();
        }
        // Threads of a cluster that failed to start would go on.
        System.exit(code);
    }

    private static void run(Path configuration) throws Exception {
        Configuration given = new Configuration();
        given.set("fs.defaultFS", "file:///");
        given.set("yarn.scheduler.capacity.root.queues", "default");
        given.set("yarn.scheduler.capacity.root.default.capacity", "100");
        // By default a tenth of the queue may be application masters: here less than one.
        given.set("yarn.scheduler.capacity.maximum-am-resource-percent", "1.0");
        given.set("yarn.scheduler.capacity.root.default.maximum-am-resource-percent", "1.0");
        given.set("yarn.scheduler.minimum-allocation-mb", "256");
        given.set("yarn.nodemanager.vmem-check-enabled", "false");
        given.set("yarn.nodemanager.pmem-check-enabled", "false");
        // It counts a disk that is 90 % full as broken.
        given.set("yarn.nodemanager.disk-health-checker.enable", "false");
        try (MiniYARNCluster cluster = new MiniYARNCluster("enrich", 2, 1, 1)) {
            cluster.init(given);
            cluster.start();
            if (!cluster.waitForNodeManagersToConnect(120_000)) {
                throw new IOException("the node managers have not connected");
            }
            try (OutputStream out = new FileOutputStream(configuration.toFile())) {
                cluster.getConfig().writeXml(out);
            }
            System.out.println("ready");
            while (System.in.read() >= 0) {
                // Nobody says anything: only the end counts.
            }
        }
    }
}
