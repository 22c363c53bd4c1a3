//! Linphone without screen and sound card: its daemon, which reads commands from standard input.

use crate::phone::{Account, Moment, Phone};
use crate::process::{Child, PATIENCE, eventually, free_port};
use crate::server::Server;
use sip_transport::Protocol;
use tempfile::TempDir;

/// A running linphone with one account.
#[derive(Debug)]
pub struct Linphone {
    child: Child,
    folder: TempDir,
    /// How much of its output has been consumed.
    read: usize,
}

impl Linphone {
    /// Starts linphone with a subscriber's account over UDP. Waits until it has registered.
    pub fn start(server: &Server, user: &str) -> Self {
        Self::with_account(server, &Account::new(user))
    }

    /// Starts linphone with a subscriber's account over UDP and session timers of this interval, in seconds. Waits until it has
    /// registered.
    pub fn with_session_timers(server: &Server, user: &str, interval: u32) -> Self {
        let settings = format!("session_expires_enabled=1\nsession_expires_value={interval}\n");
        Self::configured(server, &Account::new(user), &settings)
    }

    /// Starts linphone with an account. Waits until it has registered.
    pub fn with_account(server: &Server, account: &Account) -> Self {
        Self::configured(server, account, "")
    }

    /// Starts linphone with an account and lines for its section `[sip]`. It tolerates silence for two minutes, because sipp sends no
    /// media.
    fn configured(server: &Server, account: &Account, settings: &str) -> Self {
        let folder = TempDir::new().expect("temporary folder");
        std::fs::create_dir_all(folder.path().join(".local/share/linphone")).expect("folder");
        let media = free_port();
        let user = &account.user;
        let own = server.address().ip();
        // It has one port for each protocol. 0 turns a protocol off.
        let [sip, tcp, tls] = [Protocol::Udp, Protocol::Tcp, Protocol::Tls].map(|protocol| {
            if protocol == account.protocol {
                free_port()
            } else {
                0
            }
        });
        let configuration = format!(
            "[sip]\n\
             sip_port={sip}\n\
             sip_tcp_port={tcp}\n\
             sip_tls_port={tls}\n\
             verify_server_certs=0\n\
             verify_server_cn=0\n\
             bind_address={own}\n\
             ipv6={ipv6}\n\
             default_proxy=0\n\
             keepalive_period=2000\n\
             register_only_when_network_is_up=0\n\
             auto_net_state_mon=0\n\
             {settings}\
             [rtp]\n\
             audio_rtp_port={media}\n\
             rtcp_xr_enabled=0\n\
             rtcp_fb_implicit_rtcp_fb=0\n\
             nortp_timeout=120\n\
             [video]\n\
             capture=0\n\
             display=0\n\
             [proxy_0]\n\
             reg_proxy=<{proxy}>\n\
             reg_route=<{proxy};lr>\n\
             reg_identity=<{uri}>\n\
             reg_expires=600\n\
             reg_sendregister=1\n\
             [auth_info_0]\n\
             username={user}\n\
             passwd={password}\n\
             realm={domain}\n",
            proxy = account.proxy(server),
            ipv6 = u8::from(own.is_ipv6()),
            uri = server.uri(user),
            password = Server::password(user),
            domain = server.domain(),
        );
        let file = folder.path().join("linphonerc");
        std::fs::write(&file, configuration + &without_most_codecs()).expect("configuration");
        let mut command = std::process::Command::new("linphone-daemon");
        command
            .env("HOME", folder.path())
            .arg("--config")
            .arg(&file);
        command.arg("--log").arg(folder.path().join("log"));
        command.arg("--disable-stats-events");
        let child = Child::start(&mut command, &folder.path().join("output"));
        let mut linphone = Self {
            child,
            folder,
            read: 0,
        };
        let registered = eventually(PATIENCE, || {
            linphone.child.say("register-status ALL");
            linphone.child.output().contains("LinphoneRegistrationOk")
        });
        assert!(
            registered,
            "linphone does not register:\n{}",
            linphone.log()
        );
        linphone
    }

    /// Waits for the next event of this type, such as `LinphoneCallStreamsRunning`. Earlier calls have consumed earlier events.
    fn wait_for(&mut self, event: &str) {
        let line = format!("Event: {event}\n");
        let happened = eventually(PATIENCE, || {
            let output = self.child.output();
            let unread = output.get(self.read..).unwrap_or_default();
            let found = unread.find(&line);
            self.read += found.map_or(0, |at| at + line.len());
            found.is_some()
        });
        assert!(happened, "no {event}:\n{}", self.child.output());
    }

    /// Removes its registration.
    pub fn unregister(&mut self) {
        self.child.say("unregister ALL");
    }
}

/// Offers G.711 only, so that requests are short enough for a datagram (RFC 3261 section 18.1.1).
fn without_most_codecs() -> String {
    let codecs = [
        ("opus", 48_000, 2),
        ("speex", 16_000, 1),
        ("speex", 8_000, 1),
        ("G729", 8_000, 1),
    ];
    let section = |(place, (name, rate, channels))| {
        format!("[audio_codec_{place}]\nmime={name}\nrate={rate}\nchannels={channels}\nenabled=0\n")
    };
    codecs.into_iter().enumerate().map(section).collect()
}

impl Phone for Linphone {
    fn name(&self) -> &'static str {
        "linphone"
    }

    fn dial(&mut self, uri: &str) {
        self.child.say(&format!("call {uri}"));
    }

    fn accept(&mut self) {
        self.child.say("answer");
    }

    fn hang_up(&mut self) {
        self.child.say("terminate");
    }

    fn wait_until(&mut self, moment: Moment) {
        self.wait_for(match moment {
            Moment::Called => "LinphoneCallIncomingReceived",
            Moment::Rings => "LinphoneCallOutgoingRinging",
            Moment::Established => "LinphoneCallStreamsRunning",
            Moment::Over => "LinphoneCallEnd",
        });
    }

    fn log(&self) -> String {
        let log = std::fs::read(self.folder.path().join("log")).unwrap_or_default();
        String::from_utf8_lossy(&log).into_owned()
    }
}
