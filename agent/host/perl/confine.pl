# confine() gives the process and all its children a seccomp filter that cannot be removed. Before it:
# $seccomp_filter, bytes of struct sock_filter in hex (agent/host/seccomp.ts).
use strict;
use POSIX ();

our $seccomp_filter;

sub confine {
  my $filter = pack('H*', $seccomp_filter);
  my $prctl = (POSIX::uname())[4] eq 'aarch64' ? 167 : 157;
  my $program = pack('S x6 P', length($filter) / 8, $filter);
  syscall($prctl, 22, 2, $program, 0, 0) == 0 or die "seccomp: $!\n"; # PR_SET_SECCOMP, SECCOMP_MODE_FILTER
}

1;
