//! Captures packets with tshark, to see what is really on the wire through an independent parser.

use crate::dissection::{self, Dissected};
use crate::process::{Child, PATIENCE, eventually, run};
use crate::server::Server;
use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// A running capture of all packets to and from a server.
#[derive(Debug)]
pub struct Capture {
    child: Child,
    folder: TempDir,
    server: SocketAddr,
}

impl Capture {
    /// Starts a capture and waits until it has seen the first packet. This needs the right to capture, which root has.
    pub fn start(server: &Server) -> Self {
        Self::with_ports(server, &[])
    }

    /// Like [`Capture::start`], and also captures packets to and from these ports.
    pub fn with_ports(server: &Server, others: &[u16]) -> Self {
        let folder = TempDir::new().expect("temporary folder");
        let server = server.address();
        let ports = [&[server.port()], others].concat();
        let ports: Vec<String> = ports.iter().map(ToString::to_string).collect();
        let filter = format!("port {}", ports.join(" or port "));
        let mut command = Command::new("tshark");
        // A buffer of 64 MiB, because the process may wait long for its turn.
        command.args(["-i", "lo", "-B", "64", "-f", &filter]);
        // Prints a line for each packet at once, and also writes the packets.
        command
            .args(["-l", "-P", "-w"])
            .arg(folder.path().join("packets"));
        let child = Child::start(&mut command, &folder.path().join("output"));
        let capture = Self {
            child,
            folder,
            server,
        };
        capture.catch_up();
        capture
    }

    /// Ends the capture when all packets sent so far have been seen.
    pub fn finish(mut self) -> Packets {
        self.catch_up();
        self.child.signal("INT");
        self.child.wait();
        let output = self.child.output();
        assert!(
            !output.contains(" dropped"),
            "the capture has gaps:\n{output}"
        );
        Packets {
            file: self.folder.path().join("packets"),
            _folder: Some(self.folder),
            port: self.server.port(),
        }
    }

    /// Sends keep-alives, which the server ignores, from its own port until one has been captured. By then all earlier
    /// packets have been captured too.
    fn catch_up(&self) {
        let socket = UdpSocket::bind((self.server.ip(), 0)).expect("a socket");
        let port = socket.local_addr().expect("bound").port();
        // Includes both ports, because the digits of one alone may also occur in a time.
        let line = format!(" {port} → {} ", self.server.port());
        let seen = eventually(PATIENCE, || {
            socket.send_to(b"\r\n\r\n", self.server).expect("sent");
            self.child.output().contains(&line)
        });
        assert!(seen, "tshark sees nothing:\n{}", self.child.output());
    }
}

/// The captured packets.
#[derive(Debug)]
pub struct Packets {
    file: PathBuf,
    _folder: Option<TempDir>,
    port: u16,
}

/// A SIP message as tshark parsed it.
#[derive(Clone, Debug)]
pub struct WireMessage {
    /// The source port.
    pub source: u16,
    /// The destination port.
    pub destination: u16,
    /// The method or the status code.
    pub what: String,
    /// The method in `CSeq`.
    pub method: String,
    /// The time since the first packet, in seconds.
    pub seconds: f64,
    /// The Call-ID.
    pub call_id: String,
    /// The user in From.
    pub from_user: String,
    /// The user in To.
    pub to_user: String,
    /// All values of To.
    pub to: Vec<String>,
    /// All tags in To.
    pub to_tags: Vec<String>,
    /// All values of Record-Route.
    pub record_routes: Vec<String>,
}

impl Packets {
    /// The packets in a file that another program wrote. `port`: the server's.
    pub fn of_file(file: &Path, port: u16) -> Self {
        Self {
            file: file.to_owned(),
            _folder: None,
            port,
        }
    }

    /// The SIP messages, in order.
    pub fn messages(&self) -> Vec<WireMessage> {
        let fields = [
            "udp.srcport",
            "udp.dstport",
            "sip.Method",
            "sip.Status-Code",
            "sip.CSeq.method",
            "frame.time_relative",
            "sip.Call-ID",
            "sip.from.user",
            "sip.to.user",
            "sip.To",
            "sip.to.tag",
            "sip.Record-Route",
        ];
        let packets = self.read("sip", &fields).into_iter();
        let messages = packets.map(|fields| {
            let [
                source,
                destination,
                method,
                status,
                of,
                seconds,
                call_id,
                from_user,
                to_user,
                to,
                to_tags,
                record_routes,
            ] = <[Vec<String>; 12]>::try_from(fields).expect("twelve fields");
            let port = |of: Vec<String>| of.concat().parse().expect("a port");
            WireMessage {
                source: port(source),
                destination: port(destination),
                what: [method, status].concat().concat(),
                method: of.concat(),
                seconds: seconds.concat().parse().expect("a time"),
                call_id: call_id.concat(),
                from_user: from_user.concat(),
                to_user: to_user.concat(),
                to,
                to_tags,
                record_routes,
            }
        });
        messages.collect()
    }

    /// The packets that tshark cannot parse or warns about: number, summary, and the problem.
    pub fn oddities(&self) -> Vec<Vec<Vec<String>>> {
        let odd = "_ws.malformed || _ws.expert.severity >= \"Warning\"";
        self.read(odd, &["frame.number", "_ws.col.Info", "_ws.expert.message"])
    }

    /// The file with the packets.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// The SIP messages one by one, even if several share a packet. `others`: further ports that carry SIP, besides the
    /// server's.
    pub fn dissect(&self, others: &[u16]) -> Vec<Dissected> {
        let mut command = Command::new("tshark");
        command.arg("-r").arg(&self.file);
        for port in others.iter().chain([&self.port]) {
            for protocol in ["udp", "tcp"] {
                command.args(["-d", &format!("{protocol}.port=={port},sip")]);
            }
        }
        command.args(["-Y", "sip", "-T", "pdml"]);
        let (code, output) = run(command.stderr(Stdio::null()));
        assert_eq!(code, 0, "tshark: {output}");
        dissection::read(&output)
    }

    /// The requested fields of all packets that match a display filter. Each field has all its occurrences.
    fn read(&self, filter: &str, fields: &[&str]) -> Vec<Vec<Vec<String>>> {
        let mut command = Command::new("tshark");
        command.arg("-r").arg(&self.file);
        command.args(["-d", &format!("udp.port=={},sip", self.port)]);
        command.args(["-Y", filter, "-T", "fields"]);
        command.args(["-E", "occurrence=a", "-E", "aggregator=|"]);
        command.args(fields.iter().flat_map(|field| ["-e", field]));
        // tshark warns there that root should not run it.
        let (code, output) = run(command.stderr(Stdio::null()));
        assert_eq!(code, 0, "tshark: {output}");
        let values = |text: &str| {
            let values = text.split('|').filter(|value| !value.is_empty());
            values.map(str::to_owned).collect()
        };
        let packets = output.lines();
        packets
            .map(|line| line.split('\t').map(values).collect())
            .collect()
    }
}
