# Runs a program on an untrusted file: as an otherwise unused user, without capabilities and network, with resource
# limits, in an empty root (isolate.pl) and a separate process namespace. Arguments: the user's id, the file, a directory
# that is given to the user, the name of a file in it for the standard output or an empty argument, the maximum size of
# written files, then the program with its arguments. The file is the standard input, and also available as /dev/stdin.
#
# System calls: unshare, prctl and those of isolate.pl, between fork and exec. No sandbox tool is on every Debian host.
use strict;
use Fcntl;
use POSIX ();
require(__FILE__ =~ s{[^/]+\z}{isolate.pl}r);

my ($uid, $input, $directory, $output, $most_bytes, @program) = @ARGV;
my ($new_uts, $new_ipc, $new_net) = (0x04000000, 0x08000000, 0x40000000);
my ($most_memory, $most_seconds, $most_files) = (2 << 30, 3600, 64);

sysopen(my $file, $input, O_RDONLY | O_NOFOLLOW) or die "$input: $!\n";
chmod 0444, $file;
chown $uid, $uid, $directory or die "$directory: $!\n";
chdir $directory or die "$directory: $!\n";
if ($output ne '') {
  sysopen(my $out, $output, O_WRONLY | O_CREAT | O_EXCL, 0600) or die "$output: $!\n";
  POSIX::dup2(fileno $out, 1) or die "$output: $!\n";
}
POSIX::dup2(fileno $file, 0);
ask('unshare', 'unshare', $new_net | $new_ipc | $new_uts);
own_processes();
my $child = fork // die "fork: $!\n";
if (!$child) {
  end_with_parent(); # the agent kills only the parent
  eval {
    enter_empty_root(['write', $directory, '/work'], ['read', $input, '/dev/stdin']);
    chdir '/work' or die "$directory: $!\n";
    keep_only();
    exec {'/usr/bin/prlimit'} 'prlimit', "--fsize=$most_bytes", "--as=$most_memory", "--cpu=$most_seconds",
      "--nofile=$most_files", '--core=0', '--', '/usr/bin/setpriv', "--reuid=$uid", "--regid=$uid", '--clear-groups',
      '--no-new-privs', '--bounding-set=-all', '--inh-caps=-all', '--pdeathsig=KILL', '--', @program;
  };
  print STDERR $@ || "prlimit: $!\n";
  POSIX::_exit(127);
}
waitpid $child, 0;
POSIX::_exit($? & 127 ? 128 + ($? & 127) : $? >> 8);
