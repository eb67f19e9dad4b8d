import { Type, type Static } from 'typebox'
import { trimmed } from '../../http/normalize.js'
import { route, type Route } from '../../http/route.js'
import { oneOf } from '../../http/schema.js'
import type { PanelSettings } from '../../settings/panel-settings.js'
import { parsePublicUrl, type PublicUrl } from '../../settings/public-url.js'

const PublicUrlSchema = Type.Object(
  {
    public_url: Type.String({ description: 'Public URL that an administrator set. Empty: none was set.' }),
    effective_url: Type.String({
      description:
        'Public URL with which links for sub-users and administrators begin. Empty: not known, so links cannot be built.',
    }),
    source: oneOf(
      ['set', 'tls', 'none'],
      'Origin of `effective_url`. `set`: an administrator set it. `tls`: derived from the name in the TLS certificate. `none`: the URL is not known.',
    ),
  },
  { title: 'PublicUrl' },
)
const BodySchema = Type.Object({
  public_url: Type.String({
    ...trimmed,
    maxLength: 300,
    description:
      'Public URL: scheme, host and optional port, for example `https://panel.example.com`. Empty: the URL is derived from the TLS certificate.',
  }),
})

export interface PublicUrlDeps {
  readonly settings: PanelSettings
  readonly publicUrl: PublicUrl
}

export function publicUrlRoutes({ settings, publicUrl }: PublicUrlDeps): Route[] {
  const common = {
    path: '/public-url',
    scope: 'admin:access',
    bound: 'refused',
    tag: 'Settings',
    data: PublicUrlSchema,
  } as const
  const row = (): Static<typeof PublicUrlSchema> => {
    const { url, source } = publicUrl.base
    return { public_url: settings.publicUrl.current, effective_url: url, source }
  }
  return [
    route({
      ...common,
      method: 'GET',
      name: 'getPublicUrl',
      summary: 'Returns the public URL of the panel',
      handle: () => ({ data: row() }),
    }),
    route({
      ...common,
      method: 'PUT',
      name: 'updatePublicUrl',
      audit: 'public_url.update',
      summary: 'Sets the public URL of the panel. Links for sub-users and administrators begin with this URL',
      body: BodySchema,
      example: { public_url: 'https://panel.example.com' },
      handle: async (context) => {
        const wanted = parsePublicUrl(context.body.public_url)
        context.audit({ target: 'public-url', detail: wanted || 'not set' })
        await settings.publicUrl.update(() => wanted)
        return { message: 'public URL updated', data: row() }
      },
    }),
  ]
}
