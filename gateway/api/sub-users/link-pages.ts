import { notFound } from '../../../shared/errors.js'
import type { Page } from '../../http/app.js'
import { jsonType, type Reply } from '../../http/reply.js'
import { isAccessCode } from '../../sub-users/access-codes.js'

/*
 * Where links of sub-users lead: to the page that logs in. They say the same for every code that has the form of one, so
 * that nobody learns which there are.
 */

/** Nothing is kept, and no other page is told of the link. */
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

/** What follows `#` no server sees, and no log. @throws {BerthError} `not_found` */
function followLink(code: string): Reply {
  if (!isAccessCode(code)) throw notFound('page')
  return { status: 302, headers: { ...unseen, Location: `/login#code=${code}` }, body: '' }
}

const loginPage: Reply = {
  status: 200,
  headers: { ...unseen, 'Content-Type': jsonType },
  body: JSON.stringify({ success: true, data: directions }),
}
