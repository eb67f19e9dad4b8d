import { Type, type Static } from 'typebox'
import { printableNamePattern } from '../../http/pattern-rules.js'
import { route, type Route } from '../../http/route.js'
import type { Brand } from '../../settings/brand.js'
import { maxLogoBytes, maxLogoSide, parseLogo, type Logo } from '../../settings/logo.js'
import type { PanelSettings } from '../../settings/panel-settings.js'

const BrandingSchema = Type.Object(
  {
    name: Type.String({ description: 'Name of the provider. Empty: none was set, and the panel shows “Berth”.' }),
    logo_url: Type.String({
      description: 'Path of the logo on this server. A new logo gets a new path. Empty: no logo was set.',
    }),
  },
  { title: 'Branding' },
)
const BodySchema = Type.Object(
  {
    name: Type.Optional(
      Type.String({
        maxLength: 40,
        pattern: printableNamePattern,
        description:
          'Name of the provider, which the panel and authenticator apps show. Empty: “Berth”. If omitted, it is unchanged.',
      }),
    ),
    logo: Type.Optional(
      Type.String({
        // Base64 needs four characters for three bytes.
        maxLength: Math.ceil(maxLogoBytes / 3) * 4,
        description: `PNG file in base64, at most ${maxLogoBytes / 1024} KiB and ${maxLogoSide} x ${maxLogoSide} pixels. Empty: removes the logo. If omitted, it is unchanged.`,
      }),
    ),
  },
  { title: 'BrandingChange' },
)

/** Routes for the name and the logo that the panel shows. */
export function brandingRoutes({ brand }: PanelSettings): Route[] {
  const common = {
    path: '/branding',
    scope: 'admin:access',
    bound: 'refused',
    tag: 'Settings',
    data: BrandingSchema,
  } as const
  return [
    route({
      ...common,
      method: 'GET',
      name: 'getBranding',
      summary: 'Returns the name and the logo of the provider',
      handle: () => ({ data: brandRow(brand) }),
    }),
    route({
      ...common,
      method: 'PUT',
      name: 'updateBranding',
      audit: 'branding.update',
      summary: 'Sets the name and the logo of the provider. The panel shows them to all users, also before the login',
      body: BodySchema,
      example: { name: 'Example Hosting' },
      handle: async (context) => {
        const { logo } = context.body
        const name = context.body.name?.trim()
        const parsed = logo ? parseLogo(logo) : undefined
        context.audit({
          target: 'branding',
          detail: describe(name, logo === undefined ? undefined : (parsed ?? 'none')),
        })
        await brand.document.update((old) => ({
          name: name ?? old.name,
          logo: logo === undefined ? old.logo : (parsed?.bytes.toString('base64') ?? ''),
        }))
        return { message: 'branding updated', data: brandRow(brand) }
      },
    }),
  ]
}

function brandRow({ document, logo }: Brand): Static<typeof BrandingSchema> {
  return { name: document.current.name, logo_url: logo?.path ?? '' }
}

function describe(name: string | undefined, logo: Logo | 'none' | undefined): string {
  const picture = logo === 'none' ? 'none' : logo && `${logo.width} x ${logo.height} pixels`
  return [
    ...(name === undefined ? [] : [`name ${name || 'not set'}`]),
    ...(picture === undefined ? [] : [`logo ${picture}`]),
  ].join(', ')
}
