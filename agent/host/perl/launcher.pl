# Starts the agent's commands. No arguments. Ends when its standard input is closed.
#
# Input and output consist of frames. Numbers have 32 bits, big-endian. Each text follows its length.
#   in   id kind fields…  R run: flags, standard input, environment (name=value lines), program, arguments
#                         P like R for the path of a Perl program, which a fork runs without exec
#                         B path of a Perl program that never waits; it runs in this process, without a fork
#                         K kill
#   out  id kind text     S started: pid, O output, E error output, X ended: "code signal", C both outputs closed
#
# System calls: fork, which takes less than a millisecond in this small process of 8 MiB. A fork of the agent would copy
# the page tables of all its memory and block its event loop. Also close_range, signalfd4, and prctl with PR_SET_PDEATHSIG
# between fork and exec, which Node does not have. Every Debian host has perl-base.
package Launcher; # Perl programs run in the package main
use strict;
use Errno;
use IO::Handle;
use POSIX ();

{ package main; require(__FILE__ =~ s{[^/]+\z}{common.pl}r) }

$0 = 'berth-launcher'; # the name in ps(1)

# Closes descriptors that the agent may have inherited from a shell, so that no command gets them.
main::call('close_range', 3, 0xffffffff, 0);

my $surviving = 1;
my $own_umask = 2;
my $launcher = $$;
my (%children, %id_of_pid, %reading, %writing);

$SIG{PIPE} = 'IGNORE';
# Reports of ended children are read from a signalfd(2). A signal handler is not sufficient: Perl runs it only after the
# next system call, so a signal just before select would not be handled. The flags are SFD_NONBLOCK and SFD_CLOEXEC.
my $ends = POSIX::SigSet->new(POSIX::SIGCHLD());
POSIX::sigprocmask(POSIX::SIG_BLOCK(), $ends) or die "sigprocmask: $!";
my $ends_mask = pack('Q', 1 << (POSIX::SIGCHLD() - 1));
my $ended_fd = main::call('signalfd4', -1, $ends_mask, length $ends_mask, 0x80800);
$ended_fd >= 0 && open(my $ended, '<&=', $ended_fd) or die "signalfd: $!";

sub answer {
  my ($id, $kind, $text) = @_;
  my $frame = pack('N a1 N/a*', $id, $kind, $text);
  while (length $frame) {
    my $written = syswrite(STDOUT, $frame);
    substr($frame, 0, $written) = '' if $written;
    exit unless defined $written || $!{EINTR};
  }
}

sub become {
  my ($kind, $flags, $environment, $program, @arguments) = @_;
  main::end_with_parent() unless $flags & $surviving;
  POSIX::_exit(1) if getppid() != $launcher;
  $SIG{PIPE} = 'DEFAULT';
  POSIX::sigprocmask(POSIX::SIG_UNBLOCK(), $ends);
  umask 022 if $flags & $own_umask;
  chdir '/';
  close $_ for $ended, map { $_->[0] } values %reading, values %writing;
  %ENV = map { split /=/, $_, 2 } split /\n/, $environment;
  if ($kind eq 'P') {
    @ARGV = @arguments;
    eval { run_file($program); 1 } or do { print STDERR $@; POSIX::_exit(1) };
    STDOUT->flush;
    POSIX::_exit(0);
  }
  no warnings;
  exec { $program } $program, @arguments;
  print STDERR "$!\n";
  POSIX::_exit(127);
}

# Runs a Perl program. Checks that it is readable, because `do` reports a failure to read only in $!.
sub run_file {
  my ($path) = @_;
  -r $path or die "$path: $!\n";
  { package main; do $path }
  die $@ if $@ ne '';
}

sub launch {
  my ($id, $kind, $flags, $input, @rest) = @_;
  pipe(my $in_child, my $in) && pipe(my $out, my $out_child) && pipe(my $err, my $err_child)
    or return refuse($id, "pipe: $!");
  my $pid = fork // return refuse($id, "fork: $!");
  if (!$pid) {
    close $_ for $in, $out, $err;
    POSIX::dup2(fileno $in_child, 0);
    POSIX::dup2(fileno $out_child, 1);
    POSIX::dup2(fileno $err_child, 2);
    become($kind, $flags, @rest);
  }
  close $_ for $in_child, $out_child, $err_child;
  $children{$id} = { pid => $pid, open => 2 };
  $id_of_pid{$pid} = $id;
  $reading{fileno $out} = [$out, $id, 'O'];
  $reading{fileno $err} = [$err, $id, 'E'];
  $in->blocking(0);
  $writing{fileno $in} = [$in, $input, $id];
  answer($id, 'S', $pid);
}

sub refuse {
  my ($id, $why) = @_;
  report($id, 'E', "$why\n", 126);
}

sub report {
  my ($id, $stream, $text, $code) = @_;
  answer($id, $stream, $text) if length $text;
  answer($id, 'X', "$code 0");
  answer($id, 'C', '');
}

sub run_here {
  my ($id, $program) = @_;
  open my $output, '>', \my $text or return refuse($id, "output: $!");
  my $usual = select $output;
  my $done = eval { run_file($program); 1 };
  select $usual;
  $done ? report($id, 'O', $text // '', 0) : report($id, 'E', $@, 1);
}

sub reap {
  sysread($ended, my $signals, 4096);
  while ((my $pid = waitpid(-1, POSIX::WNOHANG())) > 0) {
    my $id = delete $id_of_pid{$pid} // next;
    my $signal = $? & 127;
    delete $children{$id}{pid};
    answer($id, 'X', $signal ? "-1 $signal" : ($? >> 8) . ' 0');
    delete $children{$id} unless $children{$id}{open};
  }
}

sub forward {
  my ($handle, $id, $kind) = @{ $reading{$_[0]} };
  my $got = sysread($handle, my $text, 65536);
  return answer($id, $kind, $text) if $got;
  delete $reading{$_[0]};
  answer($id, 'C', '') unless --$children{$id}{open};
  delete $children{$id} unless $children{$id}{open} || $children{$id}{pid};
}

sub feed {
  my $entry = $writing{$_[0]};
  my $written = syswrite($entry->[0], $entry->[1]);
  return if !defined $written && $!{EAGAIN};
  substr($entry->[1], 0, $written // 0) = '';
  delete $writing{$_[0]} if !defined $written || !length $entry->[1];
}

# Kills a child. Stops reading its outputs, because processes that it started can keep them open for ever.
sub abandon {
  my $child = $children{$_[0]} // return;
  kill 'KILL', $child->{pid} if $child->{pid};
  $child->{open} = 0;
  my $id = $_[0];
  $reading{$_}[1] == $id and delete $reading{$_} for keys %reading;
  $writing{$_}[2] == $id and delete $writing{$_} for keys %writing;
  delete $children{$_[0]} unless $child->{pid};
}

my $received = '';
sub receive {
  my $got = sysread(STDIN, $received, 65536, length $received);
  return if !defined $got && $!{EINTR};
  exit unless $got;
  while (length $received >= 4) {
    my $length = unpack('N', $received);
    last if length($received) < 4 + $length;
    my ($id, $kind, $fields) = unpack('x4 N a1 a*', substr($received, 0, 4 + $length));
    substr($received, 0, 4 + $length) = '';
    if ($kind eq 'K') { abandon($id) }
    elsif ($kind eq 'B') { run_here($id, unpack('(N/a*)*', $fields)) }
    else { launch($id, $kind, unpack('(N/a*)*', $fields)) }
  }
}

binmode STDIN;
binmode STDOUT;
while (1) {
  my ($r, $w) = ('', '');
  vec($r, $_, 1) = 1 for 0, $ended_fd, keys %reading;
  vec($w, $_, 1) = 1 for keys %writing;
  next if select($r, $w, undef, undef) < 0;
  reap() if vec($r, $ended_fd, 1);
  for my $fd (keys %writing) { feed($fd) if vec($w, $fd, 1) }
  for my $fd (keys %reading) { forward($fd) if vec($r, $fd, 1) }
  receive() if vec($r, 0, 1);
}
