# Makes a request about subvolumes and quota groups of btrfs (linux/btrfs.h). Arguments: `snapshot`, `create`, `join`,
# `bound`, `id`, `ungroup`, `destroy`, `exchange` or `commit`, then the arguments of the function below. An empty argument
# counts as absent. Structures are packed as on all 64-bit machines.
#
# System calls: ioctl with the BTRFS_IOC_ requests named below, which btrfs(8) of Debian 12 lacks or needs ten times as long
# for, and renameat2 with RENAME_EXCHANGE, which neither Node nor mv(1) has.
use strict;
use warnings;
use Errno;
use Fcntl qw(O_RDONLY O_DIRECTORY O_NOFOLLOW LOCK_EX LOCK_UN);
use IO::Handle;
require(__FILE__ =~ s{[^/]+\z}{common.pl}r);

# BTRFS_IOC_QGROUP_CREATE; with bytes BTRFS_IOC_QGROUP_LIMIT and BTRFS_QGROUP_LIMIT_MAX_RFER, where -1 means unlimited. The
# sweep of empty groups may delete an existing group between the two requests: then it is created again.
sub ensure_group {
  my ($in, $group, $bytes) = @_;
  my $create = pack('QQ', 1, $group);
  for my $attempts_left (reverse 0 .. 4) {
    ioctl($in, 0x4010942A, $create) or $!{EEXIST} or die "group: $!\n";
    return if $bytes eq '' || set_bound($in, $group, $bytes);
    die "bound: $!\n" unless $!{ENOENT} && $attempts_left;
  }
}

sub set_bound {
  my ($in, $group, $bytes) = @_;
  my $limit = pack('Q Qq Q3', $group, 1, $bytes > 0 ? $bytes : -1, 0, 0, 0);
  return ioctl($in, 0x8030942B, $limit);
}

# BTRFS_IOC_INO_LOOKUP of a subvolume's root directory: the id of the subvolume; a newer one has a larger id.
sub subvolume_id {
  my ($directory) = @_;
  my $arguments = pack('Q Q Z4080', 0, 256, '');
  ioctl($directory, 0xD0009412, $arguments) or die "id: $!\n";
  return unpack('Q', $arguments);
}

sub open_directory {
  my ($path) = @_;
  sysopen(my $directory, $path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW) or return undef;
  return $directory;
}

# BTRFS_IOC_SNAP_CREATE_V2 with BTRFS_SUBVOL_RDONLY and, into a group, BTRFS_SUBVOL_QGROUP_INHERIT: btrfs(8) can
# only do so afterwards.
sub snapshot {
  my ($source, $directory, $name, $read_only, $group, $bytes) = @_;
  my $from = open_directory($source) or die "$source: $!\n";
  my $to = open_directory($directory) or die "$directory: $!\n";
  ensure_group($to, $group, $bytes) if $group;
  my $inherit = pack('Q4 Q5 Q', 0, 1, (0) x 7, $group || 0);
  my ($length, $pointer) = $group ? (length $inherit, unpack('J', pack('P', $inherit))) : (0, 0);
  my $flags = ($read_only ? 2 : 0) | ($group ? 4 : 0);
  my $arguments = pack('q Q Q Q Q Q2 Z4040', fileno $from, 0, $flags, $length, $pointer, 0, 0, $name);
  ioctl($to, 0x50009417, $arguments) or die "$!\n";
}

# Requests about a volume's groups use the directory that contains it. If they used the volume, they would count for it, and
# a full volume would answer EDQUOT.
sub open_volume {
  my ($path) = @_;
  my $volume = open_directory($path) or die "$path: $!\n";
  my $above = open_directory("$path/..") or die "$path/..: $!\n";
  return (subvolume_id($volume), $above);
}

# BTRFS_IOC_SUBVOL_CREATE_V2 with, into a group, BTRFS_SUBVOL_QGROUP_INHERIT
sub create {
  my ($directory, $name, $group, $bytes) = @_;
  my $to = open_directory($directory) or die "$directory: $!\n";
  ensure_group($to, $group, $bytes) if $group;
  my $inherit = pack('Q4 Q5 Q', 0, 1, (0) x 7, $group || 0);
  my ($length, $pointer) = $group ? (length $inherit, unpack('J', pack('P', $inherit))) : (0, 0);
  my $arguments = pack('q Q Q Q Q Q2 Z4040', 0, 0, $group ? 4 : 0, $length, $pointer, 0, 0, $name);
  ioctl($to, 0x50009418, $arguments) or die "$!\n";
}

# BTRFS_IOC_QGROUP_ASSIGN
sub join_group {
  my ($path, $group, $bytes) = @_;
  my ($id, $above) = open_volume($path);
  ensure_group($above, $group, $bytes);
  my $assign = pack('Q3', 1, $id, $group);
  ioctl($above, 0x40189429, $assign) or $!{EEXIST} or die "member: $!\n";
}

sub print_id { my ($id) = open_volume($_[0]); print $id }

# Sets the limit of the volume's own group, which has the volume's number.
sub bound_volume {
  my ($path, $bytes) = @_;
  my ($id, $above) = open_volume($path);
  set_bound($above, $id, $bytes) or die "bound: $!\n";
}

# BTRFS_IOC_QGROUP_CREATE also removes groups. A group that has members stays.
sub remove_groups {
  my ($path, @groups) = @_;
  my $in = open_directory($path) or die "$path: $!\n";
  for my $group (@groups) {
    my $remove = pack('QQ', 0, $group);
    ioctl($in, 0x4010942A, $remove);
  }
}

# BTRFS_IOC_SNAP_DESTROY takes 0.2 ms; btrfs(8), which reads half of /proc and /sys first, 15.
sub destroy {
  my ($path, @names) = @_;
  my $in = open_directory($path) or die "$path: $!\n";
  for my $name (@names) {
    my $arguments = pack('q Z4088', 0, $name);
    ioctl($in, 0x5000940F, $arguments) or die "$!\n";
  }
}

sub find_id {
  my ($name) = @_;
  my $volume = open_directory($name);
  return subvolume_id($volume) if $volume;
  return 0 if $!{ENOENT};
  die "$name: $!\n";
}

# Exchanges the names of two subvolumes if `next` is the newer one. The lock excludes the last command of a killed agent,
# which may still be running: it would exchange them back. The fsync of their directory commits the transaction.
sub exchange {
  my ($path, $current, $next) = @_;
  chdir $path or die "$path: $!\n";
  my $directory = open_directory('.') or die "$path: $!\n";
  flock($directory, LOCK_EX) or die "lock: $!\n";
  my ($current_id, $next_id) = (find_id($current), find_id($next));
  my $due = $next_id > $current_id;
  if ($due && $current_id) { call('renameat2', -100, $current, -100, $next, 2) == 0 or die "$!\n" }
  elsif ($due) { rename($next, $current) or die "$!\n" }
  flock($directory, LOCK_UN) or die "unlock: $!\n";
  $directory->sync or die "sync: $!\n";
  print $due ? 'exchanged' : $next_id ? 'done' : 'nothing';
}

# BTRFS_IOC_START_SYNC and BTRFS_IOC_WAIT_SYNC: commits the transaction without writing out the guests' dirty files. The
# kernel's cleaner starts on deleted subvolumes after a commit; the new time of the directory makes sure that there is one.
sub commit {
  my ($path) = @_;
  my $in = open_directory($path) or die "$path: $!\n";
  utime(undef, undef, $path) or die "time: $!\n";
  my $transaction = pack('Q', 0);
  ioctl($in, 0x80089418, $transaction) or die "start: $!\n";
  ioctl($in, 0x40089416, $transaction) or die "wait: $!\n";
}

my %requests = (
  snapshot => \&snapshot,
  create => \&create,
  join => \&join_group,
  bound => \&bound_volume,
  id => \&print_id,
  ungroup => \&remove_groups,
  destroy => \&destroy,
  exchange => \&exchange,
  commit => \&commit,
);
my $request = shift @ARGV;
$requests{$request}->(@ARGV);
