# Runs a program that reads an untrusted tree. Arguments: the tree, its user ids and group ids, then the program,
# which starts in the tree. The ids are ranges of the form "FIRST SHOWN COUNT", separated by commas: the program
# sees the ids FIRST and following ones, which are stored on the disk, as SHOWN and following ones. An empty
# argument shows the stored ids.
#
# The program runs without a network, in an empty root (isolate.pl), in which the tree is mounted read-only and
# idmapped on /source. Owners, ACLs and file capabilities then have the shown ids. Other file systems inside the
# tree are left out.
#
# System calls: unshare, open_tree, mount_setattr with MOUNT_ATTR_IDMAP and those of isolate.pl, between fork and
# exec. mount(8) of Debian 12 cannot create idmapped mounts.
use strict;
use POSIX ();
require(__FILE__ =~ s{[^/]+\z}{isolate.pl}r);

my ($source, $users, $groups, @program) = @ARGV;
my ($new_user, $new_net_ipc) = (0x10000000, 0x48000000); # CLONE_NEWUSER; CLONE_NEWNET and _NEWIPC
my ($here, $empty_path) = (-100, 0x1000);
my ($restricted, $idmap) = (1 | 2 | 4 | 8, 0x00100000); # read-only, nosuid, nodev, noexec
my $place = '/source';

# Opens a user namespace whose ids are those of the disk, and whose outer ids are the shown ones.
sub open_id_map {
  my ($users, $groups) = @_;
  pipe(my $mapped, my $map) && pipe(my $born, my $birth) or die "pipe: $!\n";
  my $child = fork // die "fork: $!\n";
  if (!$child) {
    close $_ for $map, $born;
    end_with_parent();
    ask('unshare', 'unshare', $new_user);
    syswrite($birth, '.');
    sysread($mapped, my $ended, 1);
    POSIX::_exit(0);
  }
  close $_ for $mapped, $birth;
  sysread($born, my $lives, 1) or die "the user namespace was not created\n";
  write_ids("/proc/$child/uid_map", $users);
  write_ids("/proc/$child/gid_map", $groups);
  open(my $userns, '<', "/proc/$child/ns/user") or die "user namespace: $!\n";
  close $map;
  waitpid $child, 0;
  return $userns;
}

sub write_ids {
  my ($path, $ranges) = @_;
  open(my $file, '>', $path) or die "$path: $!\n";
  my $lines = join '', map { "$_\n" } split /,/, $ranges;
  syswrite($file, $lines) or die "the ids of the tree cannot be mapped ($ranges): $!\n";
}

my $userns = $users eq '' ? undef : open_id_map($users, $groups);
own_mounts();
ask('unshare', 'unshare', $new_net_ipc);
my $tree = ask("open $source", 'open_tree', $here, "$source", 1 | close_on_exec());
my $attributes = pack('Q4', $restricted | ($userns ? $idmap : 0), 0, 0, $userns ? fileno $userns : 0);
ask("the file system of $source does not support this", 'mount_setattr', $tree, '', $empty_path, $attributes,
  length $attributes);
enter_empty_root(['tree', $tree, $place]);
chdir $place or die "$place: $!\n";
end_with_parent();
bound_memory();
exec { $program[0] } @program;
die "$program[0]: $!\n";
