//! The sections about the database, and about the bindings that are kept in memory.
use crate::config::catalogue::{any, between, optional, optional_between};
use crate::config::declare::{choice, section};
use crate::config::values::duration::{days, millis, seconds};
use crate::config::values::host::{DatabaseUrl, FilePath, LocationStore};
use crate::config::values::keyword::Durability;
use crate::config::values::node_name::NodeName;
use std::time::Duration;
use tandem_store::StoreOptions;

section! {
    /// Persistent storage: subscribers, and registrations across restarts.
    Database {
        /// `sqlite:` followed by a path, `postgres://USER:PASSWORD@HOST:PORT/DATABASE`, or `mysql://USER:PASSWORD@HOST:PORT/DATABASE` for
        /// MySQL and MariaDB. A relative path starts at the working directory. Write special characters of the password as `%XX`. The log,
        /// the admin interface and `tandem check` do not show the password.
        restart url: DatabaseUrl = DatabaseUrl("sqlite:tandem.db".to_owned()), any();

        /// Maximum number of connections to the database. With a database server, one more connection reserves this server's name there.
        restart connections: u32 = StoreOptions::default().connections, between(2, 64);

        /// The tables of the database.
        inline schema: Schema;
    }
}

choice! {
    /// Whose tables the database has.
    Schema {
        /// Whose tables the database has. `"kamailio"` reads the tables of a Kamailio on PostgreSQL or MySQL in place and writes nothing,
        /// so that you can try Tandem beside it ([from Kamailio](from-kamailio.md)). Registrations and calls of this server are then
        /// only in memory, and `records.database`, `dialogs.persist` and `location.durability = "commit"` are not available.
        restart schema = {
            /// Tandem's own, which the server creates.
            Tandem = "tandem",
            /// Those of a Kamailio.
            Kamailio(KamailioTables) = "kamailio",
        }
    }
}

section! {
    /// How the tables of a Kamailio are read.
    KamailioTables {
        /// Where passwords are, as `calculate_ha1` of Kamailio's module `auth_db`: with `true` in the column `password`, with `false` in
        /// `ha1`, or in `password` if `ha1` is empty.
        restart calculate_ha1: bool = false, any();

        /// Time zone of Kamailio's process, in which it writes when registrations expire: a name that the database server knows, such as
        /// `"Europe/Berlin"`, or an offset such as `"+01:00"`. MySQL knows names only if its tables of time zones are filled.
        restart time_zone: String = "UTC".to_owned(), any();

        /// How often the registrations at Kamailio are read again. Calls reach a phone that registers at Kamailio after at most this time.
        reload location_interval: Duration = seconds(60), between(seconds(1), days(1));

        /// Group (`grp`) of the table `address` whose networks are added to `proxy.trusted_peers`, at the start and at each reload. Rows
        /// with a port or a name are skipped. If the database is away at a reload, the networks that were read last stay trusted. If
        /// omitted, the table is not read.
        reload trusted_group: Option<u32> = None, optional_between(0, 2_147_483_647, 1);
    }
}

section! {
    /// The location service, which stores the bindings.
    Location {
        /// Where bindings are stored. `"memory"` keeps them in memory and saves changes to the database within a fraction of a second. The
        /// URL of a Redis or Valkey server shares them among the nodes of a fleet: each node keeps all bindings in memory, and nodes
        /// exchange changes through that server. The database then stores no bindings ([fleet](fleet-locations.md)). The log, the
        /// admin interface and `tandem check` do not show the password of the URL.
        restart store: LocationStore = LocationStore::Memory, any();

        /// How often changed bindings are saved. All changes are written in one transaction or a few. At most 1s if a fleet shares them.
        reload save_interval: Duration = millis(20), between(millis(10), seconds(60));

        /// How much later than `save_interval` a registration that was answered 200 may reach the database. If saving falls behind,
        /// responses wait until their bindings are saved. If too many responses wait, registrations are answered 503.
        reload max_lag: Duration = seconds(1), between(millis(100), seconds(60));

        /// When registrations are answered. `"interval"` answers at once: if the process is killed, registrations of the last
        /// `save_interval` and `max_lag` may be lost. `"commit"` answers when the binding is in the database and the disk has confirmed
        /// it: no answered registration is lost, even if the machine loses power. Each response is then delayed by `save_interval` and the
        /// disk's write time. With a Redis server, `"commit"` answers when that server has the binding.
        restart durability: Durability = Durability::Interval, any();
    }
}

section! {
    /// The fleet that this server is a node of.
    Fleet {
        /// Name of this process in the fleet: as for `node.name`. Two nodes that run at the same time need different names. The environment
        /// variable `TANDEM_INSTANCE` sets it, too; in Kubernetes, set it to the UID of the pod. If omitted, `node.name`.
        restart instance: Option<NodeName> = None, optional(Some(NodeName::default()));

        /// File with the secret of the fleet: 32 or more bytes, the same for all edges and nodes. With it, the server takes the address of a
        /// client from the edge that forwarded its request, for bans, limits, nonces and trust. If omitted, a request comes from where its
        /// packet comes from.
        restart secret_file: Option<FilePath> = None, optional(Some(FilePath("/etc/tandem/fleet.secret".into())));

        /// How long a node that stops goes on taking new calls from edges, at least. It answers their probes with 503, so they send new calls
        /// elsewhere after `nodes.probe_interval`.
        reload notice: Duration = seconds(2), between(seconds(0), seconds(60));

        /// The first part of all keys in Redis: as for `node.name`. Fleets that share a server need different ones.
        restart prefix: NodeName = NodeName::default(), any();
    }
}
