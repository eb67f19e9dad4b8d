# BTRFS_IOC_QUOTA_CTL with BTRFS_QUOTA_CTL_ENABLE_SIMPLE_QUOTA; btrfs-progs have it since 6.7. Argument: a path in the
# filesystem.
my $control = pack("QQ", 4, 0);
open(my $pool, "<", $ARGV[0]) or die "$!\n";
ioctl($pool, 0xC0109428, $control) or die "$!\n";
