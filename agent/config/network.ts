import { Type } from 'typebox'
import { section } from './fields.js'

const ipv4Cidr = '^\\d{1,3}(\\.\\d{1,3}){3}/\\d{1,2}$'
const cidr = '^(\\d{1,3}(\\.\\d{1,3}){3}/\\d{1,2}|[0-9A-Fa-f:]{2,39}/\\d{1,3})$'

export const networkSchema = Type.Object(
  {
    bridge: Type.String({ default: 'berth0', pattern: '^[a-z][a-z0-9-]{0,14}$' }),
    /** Name of Berth's nft tables. One table with this name exists for each address family. */
    table: Type.String({ default: 'berth', pattern: '^[a-z][a-z0-9_]{0,30}$' }),
    /** Prefix of the names of guests' host-side interfaces. The guest's id follows the prefix. */
    interface_prefix: Type.String({ default: 'bt', pattern: '^[a-z]{1,4}$' }),
    /** Private network of guests. Its first host address belongs to the bridge, the guests' default gateway. */
    subnet: Type.String({ default: '10.64.0.0/16', pattern: ipv4Cidr }),
    /** Private IPv6 network of guests, for NAT66 on hosts that have an IPv6 address but no prefix for guests. */
    subnet6: Type.String({ default: 'fd62:6572:7468::/64', pattern: '^[0-9a-f:]{2,39}/\\d{1,3}$' }),
    nat_ports: Type.Object(
      {
        start: Type.Integer({ minimum: 1024, maximum: 65535, default: 20000 }),
        end: Type.Integer({ minimum: 1024, maximum: 65535, default: 59999 }),
        /** Maximum number of mapped ports of one guest. tcp and udp are counted separately. */
        per_guest: Type.Integer({ minimum: 1, maximum: 64512, default: 4000 }),
      },
      section,
    ),
    /**
     * Interfaces that the agent searches for IPv6 prefixes and for the default interface of address pools. Empty: all
     * interfaces with hardware, and their bonds and VLANs.
     */
    uplinks: Type.Array(Type.String({ pattern: '^[A-Za-z0-9][A-Za-z0-9_.-]{0,14}$' }), {
      default: [],
      maxItems: 16,
    }),
    /** Ranges of public addresses on a segment that this host shares with other hosts. */
    shared_pools: Type.Array(
      Type.Object(
        {
          /** Name of the pool. Hosts with the same name and range serve the same pool. */
          name: Type.String({ pattern: '^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$' }),
          /** IPv4 network, or IPv6 network with a prefix length of at most 80. */
          range: Type.String({ pattern: cidr }),
          /** Interface on the segment. Empty: the uplink with the default route. */
          interface: Type.String({ default: '', pattern: '^([A-Za-z0-9][A-Za-z0-9_.-]{0,14})?$' }),
        },
        { additionalProperties: false },
      ),
      { default: [], maxItems: 16 },
    ),
    /**
     * Addresses and CIDRs that guests cannot reach, except port 53 of their name servers. The default contains the
     * addresses at which clouds give hosts user data and credentials. Link-local addresses are always closed.
     */
    closed_destinations: Type.Array(Type.String({ pattern: '^[0-9a-fA-F.:]{2,45}(/\\d{1,3})?$' }), {
      default: [
        '168.63.129.16', // Azure
        '100.100.100.200', // Alibaba
        '192.0.0.192', // Oracle
        'fd00:ec2::254', // Amazon
        'fd00:c1::a9fe:a9fe', // Oracle
        'fd20:ce::254', // Google
        'fd00:42::42', // Scaleway
      ],
      maxItems: 256,
    }),
    /** Name servers of guests. Empty: the host's own, if guests can reach them, otherwise 9.9.9.9 and 1.1.1.1. */
    resolvers: Type.Array(Type.String({ pattern: '^[0-9a-fA-F.:]{2,45}$' }), {
      default: [],
      maxItems: 3,
    }),
  },
  section,
)
