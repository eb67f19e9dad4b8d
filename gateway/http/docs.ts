import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import helmet from 'koa-helmet'
import type { Page } from './app.js'
import type { ExchangeContext } from './exchange.js'
import { etagOf, jsonType, type Reply } from './reply.js'

/** The content security policy permits only content of this server, and no inline scripts. */
const securityHeaders = helmet({
  contentSecurityPolicy: {
    useDefaults: false,
    directives: {
      defaultSrc: ["'none'"],
      scriptSrc: ["'self'"],
      // Swagger UI sets style attributes. Styles of other servers stay forbidden.
      styleSrc: ["'self'", "'unsafe-inline'"],
      imgSrc: ["'self'", 'data:'],
      fontSrc: ["'self'"],
      connectSrc: ["'self'"],
      baseUri: ["'none'"],
      formAction: ["'none'"],
      frameAncestors: ["'none'"],
    },
  },
  // `sendReply` adds this header to answers over TLS (see `Tls.hsts`), or a proxy in front of the gateway adds it.
  strictTransportSecurity: false,
})

const html = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>Berth API</title>
<link rel="icon" href="/docs/favicon-32x32.png">
<link rel="stylesheet" href="/docs/swagger-ui.css">
</head>
<body>
<div id="swagger-ui"></div>
<script src="/docs/swagger-ui-bundle.js"></script>
<script src="/docs/start.js"></script>
</body>
</html>
`

const start = `window.ui = SwaggerUIBundle({
  url: '/api/v1/openapi.json',
  dom_id: '#swagger-ui',
  deepLinking: true,
  validatorUrl: null,
})
`

/** Links to the documents, for users who open `/` or `/api`. */
const directions = {
  name: 'Berth',
  api: '/api/v1',
  documentation: '/docs',
  openapi: '/api/v1/openapi.json',
}

/** The OpenAPI document, the page that displays it, and an overview with links to them. No key is needed. */
export function documentPages(readDocument: () => object): Page[] {
  const openapi = fixed(() => JSON.stringify(readDocument()), jsonType)
  const overview = fixed(() => JSON.stringify({ success: true, data: directions }), jsonType)
  const assets = dirname(createRequire(import.meta.url).resolve('swagger-ui-dist/package.json'))
  const file = (name: string): Buffer => readFileSync(join(assets, name))
  return [
    { path: '/', handle: () => ({ status: 302, headers: { Location: '/docs' }, body: '' }) },
    { path: '/api{/v1}', handle: overview },
    { path: '/api{/v1}/openapi.json', handle: openapi },
    { path: '/openapi.json', handle: openapi },
    page('/docs', () => html, 'text/html; charset=utf-8'),
    page('/docs/start.js', () => start, 'text/javascript; charset=utf-8'),
    page('/docs/swagger-ui-bundle.js', () => file('swagger-ui-bundle.js'), 'text/javascript; charset=utf-8'),
    page('/docs/swagger-ui.css', () => file('swagger-ui.css'), 'text/css; charset=utf-8'),
    page('/docs/favicon-32x32.png', () => file('favicon-32x32.png'), 'image/png'),
  ]
}

function page(path: string, read: () => Buffer | string, type: string): Page {
  const reply = fixed(read, type)
  return {
    path,
    handle: async (ctx) => {
      await securityHeaders(ctx, async () => undefined)
      const own = ctx.response.headers as Record<string, string>
      const { status, headers, body } = await reply(ctx)
      return { status, headers: { ...namesInLowerCase(headers), ...own }, body }
    },
  }
}

/** Serves a body that is created at the first request. Clients revalidate it. Images stay uncompressed. */
export function fixed(read: () => Buffer | string, type: string): (ctx: ExchangeContext) => Promise<Reply> {
  let plain: PreparedFile | undefined
  let zipped: Promise<PreparedFile> | undefined
  return async (ctx) => {
    plain ??= prepare(read())
    const zip = !type.startsWith('image/') && ctx.acceptsEncodings('gzip', 'identity') === 'gzip'
    const { body, etag } = zip ? await (zipped ??= compress(plain)) : plain
    const headers = {
      'Content-Type': type,
      ETag: etag,
      'Cache-Control': 'no-cache',
      Vary: 'Accept-Encoding',
      ...(zip ? { 'Content-Encoding': 'gzip' } : {}),
    }
    const known = ctx.get('if-none-match') === etag
    return known ? { status: 304, headers, body: '' } : { status: 200, headers, body }
  }
}

interface PreparedFile {
  readonly body: Buffer | string
  readonly etag: string
}

function prepare(body: Buffer | string): PreparedFile {
  return { body, etag: etagOf(body) }
}

/** Compresses a file. The compressed form has its own ETag (RFC 9110, 8.8.3.3). */
async function compress({ body }: PreparedFile): Promise<PreparedFile> {
  return prepare(await promisify(gzip)(body))
}

function namesInLowerCase(headers: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]))
}
