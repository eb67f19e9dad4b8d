/** Filters of the Logs page. An empty field selects all entries. Times have the form of the API. */
export interface LogFilter {
  user: string
  action: string
  target: string
  result: '' | 'success' | 'failure'
  from: string
  to: string
}

export const noLogFilter: LogFilter = { user: '', action: '', target: '', result: '', from: '', to: '' }

/** Query parameters of the log of changes. */
export function auditQueryOf({ user, action, target, ...rest }: LogFilter) {
  return { ...given({ user: user.trim(), action, target: target.trim() }), ...commonOf(rest) }
}

/** Query parameters of the log of logins, which has neither actions nor objects. */
export function loginQueryOf({ user, result, from, to }: LogFilter) {
  return { ...given({ username: user.trim() }), ...commonOf({ result, from, to }) }
}

function commonOf({ result, from, to }: Pick<LogFilter, 'result' | 'from' | 'to'>) {
  return { ...(result !== '' && { success: result === 'success' }), ...given({ from, to }) }
}

/** Omits empty texts. */
function given<T extends Record<string, string>>(fields: T): Partial<T> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== '')) as Partial<T>
}
