# BTRFS_IOC_SNAP_CREATE_V2 with BTRFS_SUBVOL_QGROUP_INHERIT, BTRFS_QGROUP_INHERIT_SET_LIMITS and
# BTRFS_QGROUP_LIMIT_MAX_RFER: btrfs(8) can bound a snapshot only afterwards. Arguments: the source, the directory and
# the name of the new subvolume, its bound in bytes.
my ($source, $directory, $name, $bytes) = @ARGV;
open(my $from, "<", $source) or die "$source: $!\n";
open(my $to, "<", $directory) or die "$directory: $!\n";
my $inherit = pack("Q4 Q5", 1, 0, 0, 0, 1, $bytes, 0, 0, 0);
my $pointer = unpack("J", pack("P", $inherit));
my $arguments = pack("q Q Q Q Q Q2 Z4040", fileno($from), 0, 4, length($inherit), $pointer, 0, 0, $name);
ioctl($to, 0x50009417, $arguments) or die "$!\n";
