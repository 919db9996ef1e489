-- Fences a transaction by the term of an election. Whoever owns the tables of the store runs this once, and again with a new release of Tenure.
--
-- In another schema than tenure: write its name wherever tenure stands before a dot or in quotation marks.

DO $make$
BEGIN
-- Programs that make it at the same time take turns.
PERFORM pg_advisory_xact_lock(hashtextextended('tenure.tenure_guard', 0));

-- The number of a lock of the store: 'g' is the gate, 'w' what a key holds, 'x' whether it exists.
-- FNV-1a of 64 bits, in halves, since numbers here have a sign; then a finalizer.
CREATE OR REPLACE FUNCTION tenure.guard_lock(kind text, name bytea) RETURNS bigint
LANGUAGE plpgsql IMMUTABLE STRICT
AS $lock$
DECLARE
    content bytea := convert_to('tenure', 'UTF8') || decode('00', 'hex') || convert_to(kind, 'UTF8') || name;
    high bigint := 3421674724;
    low bigint := 2216829733;
    mixed bigint;
    product numeric;
BEGIN
    FOR i IN 0 .. length(content) - 1 LOOP
        low := low # get_byte(content, i);
        high := (high * 435 + ((low * 435) >> 32) + (low << 8)) & 4294967295;
        low := (low * 435) & 4294967295;
    END LOOP;
    low := low # (high >> 1);
    product := mod((high * 4294967296::numeric + low) * 18397679294719823053, 18446744073709551616);
    high := div(product, 4294967296);
    low := mod(product, 4294967296);
    mixed := (high << 32) | (low # (high >> 1));
    RETURN (mixed >> 2) & 4611686018427387903;
END
$lock$;

CREATE OR REPLACE FUNCTION tenure.tenure_guard(cluster text, election text, term bigint) RETURNS void
LANGUAGE plpgsql VOLATILE
-- Its callers need no right to the tables.
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
-- Tables may have been small when a plan was made.
SET enable_seqscan = off
AS $guard$
DECLARE
    -- How the keys begin: "tenure", the cluster, and that a text follows.
    root bytea := decode('1174656e7572650011', 'hex') || convert_to(cluster, 'UTF8') || decode('0011', 'hex');
    office_key bytea := root || convert_to('election', 'UTF8') || decode('0011', 'hex')
        || convert_to(election, 'UTF8') || decode('00', 'hex');
    session_key bytea;
    -- Format, term and session of the holder, before and after all locks are held.
    seen bytea;
    office bytea;
    office_lock bigint;
    session_lock bigint;
    current_term bigint;
    flaw text;
BEGIN
    SELECT substr(k.value, 1, 25) INTO seen FROM tenure.kv k WHERE k.key = office_key;
    IF seen IS NULL THEN
        RAISE EXCEPTION 'term % of election "%" in cluster "%" is not current: nobody was ever elected', term, election, cluster
            USING ERRCODE = 'TN001', HINT = 'See that the names are right, and that the schema is the one of the store.';
    END IF;
    IF length(seen) < 25 OR get_byte(seen, 0) <> 1 THEN
        RAISE EXCEPTION 'election "%" in cluster "%" is stored in a format that this function does not know', election, cluster
            USING ERRCODE = 'TN002', HINT = 'Make the function anew, with the statements of the release of Tenure that runs.';
    END IF;
    -- A session's id is any bytes, of which 0 and 1 are written as two.
    SELECT root || convert_to('session', 'UTF8') || decode('0010', 'hex') || string_agg(
            CASE get_byte(seen, i) WHEN 0 THEN decode('0101', 'hex') WHEN 1 THEN decode('0102', 'hex') ELSE substr(seen, i + 1, 1) END,
            decode('', 'hex') ORDER BY i
        ) || decode('00', 'hex')
        INTO session_key FROM generate_series(9, 24) AS i;

    -- A client that vanishes in the middle of a transaction would keep all others from the office, for hours by PostgreSQL's own settings.
    IF current_setting('idle_in_transaction_session_timeout') = '0' THEN
        PERFORM set_config('idle_in_transaction_session_timeout', '15s', true);
    END IF;

    -- Row locks, below, are what a takeover and the end of a session wait for. But PostgreSQL lets those who share a row pass by those
    -- who wait to change it: a busy leader could never be deposed. So this also takes its turn with the locks of commits, in their order.
    -- The gate is only passed: were it kept, the deletion of a range would wait for this transaction, and every commit for the deletion.
    -- Once in a transaction, since whoever has the gate now may wait for what an earlier call has locked.
    IF current_setting('tenure.guarded', true) IS DISTINCT FROM 'on' THEN
        BEGIN
            PERFORM pg_advisory_xact_lock_shared(tenure.guard_lock('g', decode('', 'hex')));
            RAISE EXCEPTION 'the gate was passed' USING ERRCODE = 'TN000';
        EXCEPTION WHEN SQLSTATE 'TN000' THEN
            -- What was locked in here has been released.
            NULL;
        END;
        PERFORM set_config('tenure.guarded', 'on', true);
    END IF;
    office_lock := tenure.guard_lock('w', office_key);
    session_lock := tenure.guard_lock('x', session_key);
    PERFORM pg_advisory_xact_lock_shared(least(office_lock, session_lock));
    PERFORM pg_advisory_xact_lock_shared(greatest(office_lock, session_lock));

    -- Commits that have the gate for themselves take no other lock but that of the row.
    SELECT substr(k.value, 1, 25) INTO office FROM tenure.kv k WHERE k.key = office_key FOR SHARE;
    current_term := ('x' || encode(substr(office, 2, 8), 'hex'))::bit(64)::bigint;
    IF current_term IS DISTINCT FROM term THEN
        flaw := format('it is in term %s', current_term);
    ELSIF encode(substr(office, 10, 16), 'hex') = repeat('0', 32) THEN
        flaw := 'nobody holds it';
    ELSIF office IS DISTINCT FROM seen THEN
        RAISE EXCEPTION 'election "%" in cluster "%" changed hands at this moment', election, cluster
            USING ERRCODE = 'serialization_failure';
    ELSE
        -- It never changes, so that its presence is all there is to keep.
        PERFORM FROM tenure.kv k WHERE k.key = session_key FOR KEY SHARE;
        IF NOT FOUND THEN
            flaw := 'the session of its holder has ended';
        END IF;
    END IF;
    IF flaw IS NOT NULL THEN
        RAISE EXCEPTION 'term % of election "%" in cluster "%" is not current: %', term, election, cluster, flaw
            USING ERRCODE = 'TN001', HINT = 'Whoever was elected for this term leads no longer, or not yet.';
    END IF;
END
$guard$;

-- Who may call it, says whoever owns it.
REVOKE ALL ON FUNCTION tenure.tenure_guard(text, text, bigint) FROM PUBLIC;
END
$make$;

-- A role that is to call it, if it is not the owner, needs:
--   GRANT USAGE ON SCHEMA tenure TO role;
--   GRANT EXECUTE ON FUNCTION tenure.tenure_guard TO role;
