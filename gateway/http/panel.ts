import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import helmet from 'koa-helmet'
import { notFound } from '../../shared/errors.js'
import type { Page } from './app.js'
import type { ExchangeContext } from './exchange.js'
import { etagOf, type Reply } from './reply.js'

/** The content security policy permits only content of this server, and no inline scripts or styles. */
const securityHeaders = helmet({
  contentSecurityPolicy: {
    useDefaults: false,
    directives: {
      defaultSrc: ["'none'"],
      scriptSrc: ["'self'"],
      styleSrc: ["'self'"],
      imgSrc: ["'self'", 'data:', 'blob:'],
      fontSrc: ["'self'"],
      connectSrc: ["'self'"],
      formAction: ["'self'"],
      baseUri: ["'none'"],
      frameAncestors: ["'none'"],
    },
  },
  // `sendReply` adds this header to answers over TLS (see `Tls.hsts`), or a proxy in front of the gateway adds it.
  strictTransportSecurity: false,
})

/** Paths that serve `index.html`. Its script decides what the page shows. */
const documentPaths = ['/', '/login', '/console/:container']

/** Name and logo of the provider. Without a logo, the panel shows its own. */
interface ShownBrand {
  readonly name: string
  /** A PNG file, and the path at which the gateway serves it. */
  readonly logo: { readonly bytes: Buffer; readonly path: string } | undefined
}

export interface PanelParts {
  /** Directory with `index.html` and `assets/`. */
  readonly directory: string
  /** Returns true if a link for `/setup` is valid; otherwise `/setup` answers 404. */
  readonly hasSetupLink: () => Promise<boolean>
  readonly brand: ShownBrand
}

/** Creates the pages of the built panel. @returns an empty list if the panel was not built */
export function panelPages({ directory, hasSetupLink, brand }: PanelParts): Page[] {
  if (!existsSync(join(directory, 'assets'))) return []
  const index = readFileSync(join(directory, 'index.html'), 'utf8')
  const assets = readAssets(join(directory, 'assets'))
  const show = documentOf(() => planDocument(index, brand))
  return [
    ...documentPaths.map((path) => ({ path, handle: show })),
    { path: '/setup', handle: setupPageOf(show, hasSetupLink) },
    { path: '/assets/:name', handle: (ctx: ExchangeContext) => assetReply(assets, ctx) },
    { path: '/brand/:name', handle: (ctx: ExchangeContext) => logoReply(brand, ctx) },
  ]
}

/**
 * Puts the name and the logo of the provider into `index.html`, so that the panel shows them from the beginning. The
 * scripts of the panel read them there.
 */
export function planDocument(index: string, { name, logo }: ShownBrand): string {
  const icon =
    logo && `<link rel="icon" href="${logo.path}" type="image/png" /><meta name="logo" content="${logo.path}" />`
  const escaped = escapeHtml(name)
  return index.replace(/<link rel="icon"[^>]*>/, (found) => icon ?? found).replaceAll('{{brand}}', () => escaped)
}

function escapeHtml(text: string): string {
  return text.replaceAll(/[&<>"']/g, (sign) => `&#${sign.charCodeAt(0)};`)
}

type Encoding = 'br' | 'gzip' | 'identity'

/** A file in all its encodings. */
interface Forms {
  readonly type: string
  readonly bodies: Partial<Record<Encoding, Buffer>>
  readonly etag: string
}

const types: Readonly<Record<string, string>> = {
  js: 'text/javascript; charset=utf-8',
  css: 'text/css; charset=utf-8',
  svg: 'image/svg+xml',
  html: 'text/html; charset=utf-8',
}

function readForms(file: string): Forms {
  const identity = readFileSync(file)
  const compressed = (ending: string) => (existsSync(file + ending) ? readFileSync(file + ending) : undefined)
  const [br, gzip] = [compressed('.br'), compressed('.gz')]
  const type = types[file.slice(file.lastIndexOf('.') + 1)] ?? 'application/octet-stream'
  return { type, bodies: { identity, ...(br && { br }), ...(gzip && { gzip }) }, etag: etagOf(identity) }
}

/** Reads the assets by name. Requests can therefore select only these files. */
function readAssets(directory: string): ReadonlyMap<string, Forms> {
  const names = readdirSync(directory).filter((name) => !/\.(br|gz)$/.test(name))
  return new Map(names.map((name) => [name, readForms(join(directory, name))]))
}

/** Serves `index.html`. Clients revalidate it every time, because it names the assets of the current build. */
function documentOf(read: () => string): (ctx: ExchangeContext) => Promise<Reply> {
  return async (ctx) => {
    await securityHeaders(ctx, async () => undefined)
    const own = ctx.response.headers as Record<string, string>
    const headers = { 'cache-control': 'no-cache', 'referrer-policy': 'no-referrer' }
    return replyOf(plainForms(types['html']!, Buffer.from(read())), ctx, { ...own, ...headers })
  }
}

function plainForms(type: string, identity: Buffer): Forms {
  return { type, bodies: { identity }, etag: etagOf(identity) }
}

/** Serves `/setup`. Without a valid link the status is 404, and the page explains why. */
function setupPageOf(show: (ctx: ExchangeContext) => Promise<Reply>, hasLink: () => Promise<boolean>): Page['handle'] {
  return async (ctx) => {
    // While the store is down, nobody knows if a valid setup link exists. The page is shown, and explains this state.
    const leads = await hasLink().catch(() => true)
    if (!leads) delete ctx.req.headers['if-none-match']
    const reply = await show(ctx)
    return leads ? reply : { ...reply, status: 404 }
  }
}

const assetHeaders = {
  // The name of the file contains a digest of its content. A file with this name therefore never changes.
  'cache-control': 'public, max-age=31536000, immutable',
  // The policy of a shared worker comes with its script. The panel's worker connects to the stream of events.
  'content-security-policy': "default-src 'none'; connect-src 'self'; frame-ancestors 'none'",
  'x-content-type-options': 'nosniff',
}

function assetReply(assets: ReadonlyMap<string, Forms>, ctx: ExchangeContext): Reply {
  const { name } = (ctx as unknown as { params: { name: string } }).params
  const forms = assets.get(name)
  if (forms === undefined) throw notFound('asset')
  return replyOf(forms, ctx, assetHeaders)
}

/** Serves the logo of the provider. Like the name of an asset, the name of its file contains a digest. */
function logoReply({ logo }: ShownBrand, ctx: ExchangeContext): Reply {
  const { name } = (ctx as unknown as { params: { name: string } }).params
  if (logo === undefined || logo.path !== `/brand/${name}`) throw notFound('logo')
  return replyOf(plainForms('image/png', logo.bytes), ctx, assetHeaders)
}

function replyOf({ bodies, type, etag }: Forms, ctx: ExchangeContext, more: Record<string, string>): Reply {
  const encoding = (ctx.acceptsEncodings('br', 'gzip', 'identity') || 'identity') as Encoding
  const chosen = bodies[encoding] === undefined ? 'identity' : encoding
  const ownEtag = chosen === 'identity' ? etag : `${etag.slice(0, -1)}-${chosen}"`
  const headers = {
    'content-type': type,
    etag: ownEtag,
    vary: 'Accept-Encoding',
    ...more,
    ...(chosen === 'identity' ? {} : { 'content-encoding': chosen }),
  }
  if (ctx.get('if-none-match') === ownEtag) return { status: 304, headers, body: '' }
  return { status: 200, headers, body: bodies[chosen] ?? '' }
}
