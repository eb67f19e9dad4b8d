import type { IncomingHttpHeaders } from 'node:http'
import { Type, type Static } from 'typebox'
import { invalidField } from '../../../shared/errors.js'
import { restricts } from '../../http/normalize.js'
import { route, type Route } from '../../http/route.js'
import { oneOf } from '../../http/schema.js'
import { languages, type PanelSettings } from '../../settings/panel-settings.js'

const LanguageSchema = Type.Object(
  { language: oneOf(languages, 'Language of the panel. `en`: English. `zh`: Chinese.') },
  { title: 'Language' },
)

const OriginsSchema = Type.Object(
  {
    origins: Type.Array(Type.String(), {
      description: 'Origins whose pages can open consoles, in addition to the origin of this server.',
    }),
    current_origin: Type.String({
      description: 'Origin of the page that sent this request. Without an `Origin` header: the origin of this server.',
    }),
  },
  { title: 'WebsshOrigins' },
)
const OriginsBodySchema = Type.Object({
  origins: Type.Optional(
    Type.Array(Type.String({ maxLength: 300 }), {
      ...restricts,
      maxItems: 100,
      description:
        'Origins whose pages can open consoles, for example `https://panel.example`. `[]`: only the origin of this server. If omitted, the list is unchanged.',
    }),
  ),
})

export function panelSettingRoutes(settings: PanelSettings): Route[] {
  return [
    route({
      method: 'GET',
      path: '/language',
      name: 'getLanguage',
      subUser: 'allowed',
      scope: 'any',
      bound: 'same',
      tag: 'Settings',
      summary: 'Returns the default language of the panel',
      data: LanguageSchema,
      handle: () => ({ data: { language: settings.language.current } }),
    }),
    ...(['POST', 'PUT'] as const).map((method) => languageRoute(settings, method)),
    ...originRoutes(settings),
  ]
}

function languageRoute({ language }: PanelSettings, method: 'POST' | 'PUT'): Route {
  return route({
    method,
    path: '/language',
    name: method === 'POST' ? 'setLanguage' : 'replaceLanguage',
    scope: 'admin:access',
    bound: 'refused',
    audit: 'language.update',
    tag: 'Settings',
    summary: 'Sets the default language of the panel. It applies to users without a language setting',
    body: LanguageSchema,
    example: { language: 'en' },
    data: LanguageSchema,
    handle: async (context) => {
      const wanted = context.body.language
      context.audit({ detail: wanted })
      return { message: 'language updated', data: { language: await language.update(() => wanted) } }
    },
  })
}

function originRoutes({ websshOrigins }: PanelSettings): Route[] {
  const common = {
    path: '/webssh-origins',
    scope: 'admin:access',
    bound: 'refused',
    tag: 'Settings',
    data: OriginsSchema,
  } as const
  return [
    route({
      ...common,
      method: 'GET',
      name: 'getWebsshOrigins',
      summary: 'Lists the origins whose pages can open consoles',
      handle: ({ headers }) => ({ data: originsRow(websshOrigins.current, headers) }),
    }),
    route({
      ...common,
      method: 'PUT',
      name: 'updateWebsshOrigins',
      audit: 'webssh_origins.update',
      summary: 'Replaces the list of origins whose pages can open consoles',
      body: OriginsBodySchema,
      example: { origins: ['https://panel.example'] },
      handle: async (context) => {
        const { body, headers } = context
        const wanted = body.origins && [...new Set(body.origins.map(parseOrigin))]
        const origins = await websshOrigins.update((old) => wanted ?? old)
        context.audit({ detail: origins.join(', ') || 'none' })
        return { message: 'origins updated', data: originsRow(origins, headers) }
      },
    }),
  ]
}

/** Checks that an origin consists of scheme, host and port only. @throws {BerthError} `invalid_field` */
function parseOrigin(text: string, index: number): string {
  const url = URL.canParse(text) ? new URL(text) : undefined
  const rest = url && [url.username, url.password, url.pathname.slice(1), url.search, url.hash].join('')
  if (!url || !/^https?:$/.test(url.protocol) || rest !== '')
    throw invalidField(
      `origins.${index}`,
      `origins.${index}: must be an origin, for example https://panel.example or http://127.0.0.1:8080`,
    )
  return url.origin
}

function originsRow(origins: readonly string[], headers: IncomingHttpHeaders): Static<typeof OriginsSchema> {
  return { origins: [...origins], current_origin: headers.origin ?? `http://${headers.host ?? ''}` }
}
