//! baresip without screen and sound card, controlled over its control socket.

use crate::phone::{Account, Moment, Phone};
use crate::process::{Child, PATIENCE, eventually, free_port};
use crate::server::Server;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;
use tempfile::TempDir;

/// A running baresip with one account.
#[derive(Debug)]
pub struct Baresip {
    child: Child,
    control: TcpStream,
    unread: Vec<u8>,
    _folder: TempDir,
}

impl Baresip {
    /// Starts baresip with a subscriber's account over UDP. Waits until it has registered.
    pub fn start(server: &Server, user: &str) -> Self {
        Self::with_account(server, &Account::new(user))
    }

    /// Starts baresip with an account. Waits until it has registered.
    pub fn with_account(server: &Server, account: &Account) -> Self {
        let folder = TempDir::new().expect("temporary folder");
        let (sip, control) = (free_port(), free_port());
        let own = server.address().ip();
        let sip = SocketAddr::new(own, sip);
        let authority = account.authority(server);
        let mux = if account.for_browsers { "yes" } else { "no" };
        // Its audio output is its audio input. An address that is always available stops it from looking for a network.
        let configuration = format!(
            "module_path /usr/lib/baresip/modules\n\
             module g711.so\n\
             module aubridge.so\n\
             module_tmp uuid.so\n\
             module_tmp account.so\n\
             module dtls_srtp.so\n\
             module ice.so\n\
             module_app menu.so\n\
             module_app ctrl_tcp.so\n\
             ctrl_tcp_listen 127.0.0.1:{control}\n\
             sip_listen {sip}\n\
             sip_cafile {}\n\
             net_interface {own}\n\
             rtp_ports 45000-60000\n\
             rtcp_mux {mux}\n\
             audio_source aubridge,echo\n\
             audio_player aubridge,echo\n\
             audio_alert aubridge,alert\n",
            authority.display()
        );
        let media = if account.for_browsers {
            ";mediaenc=dtls_srtp;medianat=ice"
        } else {
            ""
        };
        let transport = account.protocol.via_token().to_ascii_lowercase();
        let line = format!(
            "<{};transport={transport}>;auth_pass={};outbound=\"{}\";regint=600{media}\n",
            server.uri(&account.user),
            Server::password(&account.user),
            account.proxy(server)
        );
        std::fs::write(folder.path().join("config"), configuration).expect("configuration");
        std::fs::write(folder.path().join("accounts"), line).expect("account");
        let mut command = std::process::Command::new("baresip");
        // With a trace of its messages.
        command.arg("-s").arg("-f").arg(folder.path());
        let child = Child::start(&mut command, &folder.path().join("output"));
        let registered = eventually(PATIENCE, || child.output().contains("200 OK"));
        assert!(registered, "baresip does not register:\n{}", child.output());
        let control = TcpStream::connect(("127.0.0.1", control)).expect("the control socket");
        let short = Some(Duration::from_millis(20));
        control.set_read_timeout(short).expect("a timeout");
        Self {
            child,
            control,
            unread: Vec::new(),
            _folder: folder,
        }
    }

    /// Waits for the next event of this type, such as `CALL_ESTABLISHED`. Earlier calls have consumed earlier events.
    fn wait_for(&mut self, event: &str) {
        let happened = eventually(PATIENCE, || {
            self.read();
            while let Some(message) = self.next_message() {
                if message["type"] == event {
                    return true;
                }
            }
            false
        });
        assert!(happened, "no {event}:\n{}", self.child.output());
    }

    /// Ends the program as its user does: it removes its registration first.
    pub fn quit(mut self) {
        self.child.signal("TERM");
        self.child.wait();
    }

    /// Sends a command. Commands and events are JSON in netstrings: length, colon, text, comma.
    fn command(&mut self, command: &str, params: &str) {
        let text = json!({ "command": command, "params": params }).to_string();
        write!(self.control, "{}:{text},", text.len()).expect("the control socket");
    }

    fn read(&mut self) {
        let mut buffer = [0; 4096];
        if let Ok(length) = self.control.read(&mut buffer) {
            self.unread.extend_from_slice(&buffer[..length]);
        }
    }

    fn next_message(&mut self) -> Option<Value> {
        let colon = self.unread.iter().position(|octet| *octet == b':')?;
        let length: usize = std::str::from_utf8(&self.unread[..colon])
            .ok()?
            .parse()
            .ok()?;
        let text = self.unread.get(colon + 1..colon + 1 + length)?;
        let message = serde_json::from_slice(text).expect("JSON");
        // Includes the comma after it, which may arrive a little later.
        if self.unread.len() < colon + length + 2 {
            return None;
        }
        self.unread.drain(..colon + length + 2);
        Some(message)
    }
}

impl Phone for Baresip {
    fn name(&self) -> &'static str {
        "baresip"
    }

    fn dial(&mut self, uri: &str) {
        self.command("dial", uri);
    }

    fn accept(&mut self) {
        self.command("accept", "");
    }

    fn hang_up(&mut self) {
        self.command("hangup", "");
    }

    fn wait_until(&mut self, moment: Moment) {
        self.wait_for(match moment {
            Moment::Called => "CALL_INCOMING",
            Moment::Rings => "CALL_RINGING",
            Moment::Established => "CALL_ESTABLISHED",
            Moment::Over => "CALL_CLOSED",
        });
    }

    fn log(&self) -> String {
        self.child.output()
    }
}
