import { Type, type Static } from 'typebox'
import { parseAddressList } from '../../access/addresses.js'
import { restricts } from '../../http/normalize.js'
import { route, type RequestContext, type Route } from '../../http/route.js'
import type { AccessPolicies, AccessPolicy } from '../../policy/access-policy.js'

const list = (description: string) => Type.Array(Type.String(), { description })

const PolicySchema = Type.Object(
  {
    enabled: Type.Boolean({
      description:
        '`true`: only clients with an address in `allowed_sources` can reach the gateway. `false`: every client can.',
    }),
    allowed_sources: list('IP addresses and CIDRs of the clients that can reach the gateway if the policy is enabled.'),
    trusted_proxies: list(
      'IP addresses and CIDRs of trusted reverse proxies, in addition to those in `gateway.yaml`. The gateway takes the client’s address from the `X-Forwarded-For` header of requests from these proxies.',
    ),
    current_source: Type.String({ description: 'Source address of this request, as the gateway sees it.' }),
  },
  { title: 'AccessPolicy' },
)

const listBody = (description: string) =>
  Type.Optional(Type.Array(Type.String({ maxLength: 64 }), { ...restricts, maxItems: 256, description }))

const BodySchema = Type.Object(
  {
    enabled: Type.Optional(
      Type.Boolean({
        description:
          '`true`: only the addresses in `allowed_sources` can reach the gateway. `false`: all addresses can reach it.',
      }),
    ),
    allowed_sources: listBody(
      'IP addresses and CIDRs of the clients that can reach the gateway. If omitted, the list is unchanged.',
    ),
    trusted_proxies: listBody(
      'IP addresses and CIDRs of trusted reverse proxies. `[]`: only the proxies in `gateway.yaml` are trusted. If omitted, the list is unchanged.',
    ),
  },
  { title: 'NewAccessPolicy' },
)

const common = {
  path: '/access-policy',
  scope: 'admin:access',
  bound: 'refused',
  tag: 'Settings',
  data: PolicySchema,
} as const

export function accessPolicyRoutes(policies: AccessPolicies): Route[] {
  return [
    route({
      ...common,
      method: 'GET',
      name: 'getAccessPolicy',
      summary: 'Returns the access policy: the addresses that can reach the gateway',
      handle: (context) => ({ data: policyRow(policies, policies.policy, context) }),
    }),
    route({
      ...common,
      method: 'PUT',
      name: 'updateAccessPolicy',
      confirmed: true,
      audit: 'access_policy.update',
      errors: ['access_policy_lockout'],
      summary:
        'Changes the access policy on every gateway immediately. Omitted fields stay unchanged. A change that locks out the caller is rejected',
      body: BodySchema,
      example: { enabled: true, allowed_sources: ['192.0.2.0/24', '2001:db8::/48'], trusted_proxies: [] },
      handle: async (context) => {
        const policy = await policies.change(planPolicy(context.body), context)
        const { enabled, allowedSources } = policy
        context.audit({ detail: `${enabled ? 'on' : 'off'}, ${allowedSources.join(', ')}` })
        return { message: 'access policy updated', data: policyRow(policies, policy, context) }
      },
    }),
  ]
}

/** @throws {BerthError} `invalid_field` */
function planPolicy(body: Static<typeof BodySchema>): Partial<AccessPolicy> {
  const { enabled, allowed_sources: sources, trusted_proxies: proxies } = body
  return {
    ...(enabled === undefined ? {} : { enabled }),
    ...(sources && { allowedSources: parseAddressList('allowed_sources', sources.join()) }),
    ...(proxies && { trustedProxies: parseAddressList('trusted_proxies', proxies.join()) }),
  }
}

function policyRow(
  policies: AccessPolicies,
  { enabled, allowedSources, trustedProxies }: AccessPolicy,
  origin: Pick<RequestContext<unknown, unknown, unknown>, 'peer' | 'headers'>,
): Static<typeof PolicySchema> {
  return {
    enabled,
    allowed_sources: [...allowedSources],
    trusted_proxies: [...trustedProxies],
    current_source: policies.judge(origin).address,
  }
}
