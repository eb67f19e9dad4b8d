# Stores listening sockets in systemd's file descriptor store, or removes them from it. Arguments: `store` and the names of
# the descriptors 3, 4, ... in their order, or `remove` and names. NOTIFY_SOCKET says where systemd listens.
#
# System call: sendmsg with SCM_RIGHTS, to a datagram socket. Node can neither open one nor send descriptors.
use strict;
use warnings;
use POSIX ();
use Socket qw(AF_UNIX SOCK_DGRAM SOL_SOCKET pack_sockaddr_un);

my $scm_rights = 1;
# Numbers of the system call in asm/unistd.h: of x86_64, and of asm-generic for the others.
my $sendmsg = { x86_64 => 46, aarch64 => 211, riscv64 => 211 }->{ (POSIX::uname())[4] } // die "sendmsg: the number of this system call is not known for this processor\n";

my ($action, @names) = @ARGV;
alarm 5; # systemd answers at once, unless it is stuck

my $address = $ENV{NOTIFY_SOCKET} // die "NOTIFY_SOCKET is not set\n";
socket(my $manager, AF_UNIX, SOCK_DGRAM, 0) or die "socket: $!\n";
connect($manager, pack_sockaddr_un($address =~ s/^\@/\0/r)) or die "connect to $address: $!\n";

my $descriptor = 3;
for my $name (@names) {
  if ($action eq 'store') { notify("FDSTORE=1\nFDNAME=$name\nFDPOLL=0", $descriptor++); }
  else { notify("FDSTOREREMOVE=1\nFDNAME=$name"); }
}
await_manager();

# notify(TEXT, DESCRIPTOR): sends a message of sd_notify(3), with a descriptor if there is one.
sub notify {
  my ($text, $passed) = @_;
  my $part = pack 'P Q', $text, length $text; # struct iovec
  my $control = defined $passed ? pack 'Q l l i x4', 20, SOL_SOCKET, $scm_rights, $passed : ''; # struct cmsghdr
  # struct msghdr: no address, one part, control data, no flags
  my $message = pack 'Q L x4 P Q P Q i x4', 0, 0, $part, 1, $control, length $control, 0;
  syscall($sendmsg, fileno $manager, $message, 0) >= 0 or die "sendmsg: $!\n";
}

# Waits until systemd has processed all messages, because it ignores senders that have ended (sd_notify_barrier(3)).
sub await_manager {
  pipe(my $end, my $passed) or die "pipe: $!\n";
  notify('BARRIER=1', fileno $passed);
  close $passed;
  sysread $end, my $nothing, 1;
}
