/** Examples of values for flags that are objects, by the field of the API. */
const examples: Readonly<Record<string, string>> = {
  nat_port_mappings: 'container_port=80,protocol=tcp',
  placement: 'group=eu,spread=web',
  firewall: 'enabled=true,default_action=DROP',
  backup_schedule: 'interval_hours=24,retention=7',
  rules: 'direction=in,protocol=tcp,action=ACCEPT,port=443',
  containers: 'name=web1,template_id=debian-12',
  items: 'address=203.0.113.7,interface=eth0',
  public_ipv4_addresses: 'address=203.0.113.7,interface=eth0',
  ipv6_prefixes: 'interface=eth0,prefix=2001:db8::/64',
  nat4_port_range: 'start=20000,end=29999',
}

/** Returns an example of the value of a field; undefined: the values of the field are not written by hand. */
export const objectExample = (field: string): string | undefined => examples[field]
