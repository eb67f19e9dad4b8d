import { notFound } from '../../../shared/errors.js'
import type { Page } from '../../http/app.js'
import { jsonType, type Reply } from '../../http/reply.js'
import { isAccessCode } from '../../sub-users/access-codes.js'

/* Pages to which links of sub-users lead. All well-formed codes get the same answer, so that nobody can find codes. */

/** Headers that keep the browser from storing the page and from sending its address to other pages. */
const unseen = { 'Cache-Control': 'no-store', 'Referrer-Policy': 'no-referrer' } as const

const directions = {
  login: '/api/v1/login',
  access: '/api/v1/sub-user/access',
  documentation: '/docs',
}

export function linkPages(): Page[] {
  return [
    { path: '/u/:code', handle: (ctx) => followLink(String((ctx.params as { code?: string }).code)) },
    { path: '/login', handle: () => loginPage },
  ]
}

/** Redirects to the login with the code after `#`, which servers do not receive. @throws {BerthError} `not_found` */
function followLink(code: string): Reply {
  if (!isAccessCode(code)) throw notFound('page')
  return { status: 302, headers: { ...unseen, Location: `/login#code=${code}` }, body: '' }
}

const loginPage: Reply = {
  status: 200,
  headers: { ...unseen, 'Content-Type': jsonType },
  body: JSON.stringify({ success: true, data: directions }),
}
